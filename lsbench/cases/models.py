"""Models of case files: what validates a case, and what ``lsbench schema`` is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictBool,
    WithJsonSchema,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from lsbench.cases.scalars import Pattern
from lsbench.cases.words import (
    DISTRIBUTION_MODELS,
    LAYOUT_MODELS,
    STRICT,
    Integer,
    Number,
    Value,
    integer,
    wrong,
)
from lsbench.formats import FORMATS
from lsbench.operator import DEFAULT_PRODUCT, PRODUCTS
from lsbench.rounding import Rounding

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
MAX_RANK = 32
"""Most dimensions that NumPy holds; the operator takes 8."""


@dataclass(frozen=True)
class Choice:
    """Annotation of a text that is one of some names."""

    names: tuple[str, ...]

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.literal_schema(list(self.names))


@dataclass(frozen=True)
class Within:
    """Annotation of an integer between two bounds, both included."""

    what: str
    least: int
    most: int

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def _check(self, value: object) -> int:
        if not self.least <= integer(value) <= self.most:
            raise wrong(f"{self.what} from {self.least} to {self.most}")
        return integer(value)


def _list(value: object) -> object:
    if not isinstance(value, list):
        raise wrong("a list")
    return tuple(value)


def _null(value: object) -> None:
    if value is not None:
        raise wrong("null, which passes a null pointer; values go under 'input:'")


Dtype = Annotated[str, Choice(tuple(FORMATS))]
Extent = Annotated[int, Within("an extent", 0, (1 << 63) - 1)]
Seed = Annotated[int, Within("a seed", 0, (1 << 63) - 1)]
Shape = Annotated[
    tuple[Extent, ...],
    BeforeValidator(_list),
    Field(max_length=MAX_RANK, description="Extents of the tensors, outermost first."),
]
Null = Annotated[None, PlainValidator(_null), WithJsonSchema({"type": "null"})]
Word = Annotated[str, Field(pattern=f"^{NAME}$")]
Words = Annotated[tuple[Word, ...], BeforeValidator(_list)]


class _Named(BaseModel):
    """A mapping of which exactly one key of a group says what it is; its name alone may stand."""

    model_config = STRICT

    @classmethod
    def kinds(cls) -> list[str]:
        """The keys of which one is needed."""
        raise NotImplementedError

    @classmethod
    def bare(cls) -> list[str]:
        """The kinds whose name alone says enough."""
        models = {**DISTRIBUTION_MODELS, **LAYOUT_MODELS}
        return [k for k in cls.kinds() if k in models and not _required(models[k])]

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: object) -> object:
        if isinstance(given, str):
            if given not in cls.bare():
                raise wrong(f"one of {', '.join(cls.bare())}, or a mapping")
            return {given: None}
        if isinstance(given, dict):
            kinds = [k for k in given if k in cls.kinds()]
            unknown = [k for k in given if k not in cls.model_fields]
            if len(kinds) != 1 and not unknown:
                raise wrong(f"exactly one of {', '.join(cls.kinds())}")
        return given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        mapping = handler.resolve_ref_schema(handler(core))
        mapping["oneOf"] = [{"required": [kind]} for kind in cls.kinds()]
        names = {"type": "string", "enum": cls.bare()}
        return {"description": mapping.pop("description", ""), "anyOf": [names, mapping]}

    @property
    def kind(self) -> str:
        """The key that says what it is."""
        return next(k for k in self.kinds() if k in self.model_fields_set)


def _required(model: type[BaseModel]) -> bool:
    return any(field.is_required() for field in model.model_fields.values())


def _optional(models: Mapping[str, type[BaseModel]]) -> dict[str, Any]:
    return {name: (model, Field(None, description=model.__doc__)) for name, model in models.items()}


class _LayoutBase(_Named):
    @classmethod
    def kinds(cls) -> list[str]:
        return [*LAYOUT_MODELS, "strides"]

    @model_validator(mode="before")
    @classmethod
    def _explicit(cls, given: object) -> object:
        # Beside strides the key 'offset' is a part of them, not the layout of that name.
        if isinstance(given, dict) and "storage" in given and "strides" not in given:
            raise wrong("'strides' beside 'storage'")
        if isinstance(given, dict) and "strides" in given:
            return {("start" if key == "offset" else key): value for key, value in given.items()}
        return given

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        schema = super().__get_pydantic_json_schema__(core, handler)
        mapping = schema["anyOf"][1]
        mapping["properties"].pop("start")
        for kind in mapping["oneOf"]:
            if kind["required"] == ["offset"]:
                kind["not"] = {"required": ["strides"]}
            elif kind["required"] != ["strides"]:
                kind["not"] = {"required": ["storage"]}
        return schema


Layout: Any = create_model(
    "Layout",
    __base__=_LayoutBase,
    __doc__="How a tensor lies in its storage; strides, offsets and gaps count elements.",
    **_optional(LAYOUT_MODELS),
    strides=(
        Annotated[tuple[Integer, ...] | None, BeforeValidator(_list)],
        Field(None, description="Explicit strides, one a dimension; 'offset' may stand beside."),
    ),
    start=(Integer | None, Field(None)),
    storage=(
        Integer | None,
        Field(None, description="Elements of the storage, beside 'strides'; default: the least."),
    ),
)


class _PartBase(_Named):
    weight: Annotated[
        Number, Field(description="Share of the mixture, relative to the others.")
    ] = 1

    @classmethod
    def kinds(cls) -> list[str]:
        return list(DISTRIBUTION_MODELS)


Part: Any = create_model(
    "Part", __base__=_PartBase, __doc__="One part of a mixture.", **_optional(DISTRIBUTION_MODELS)
)


def _patterns(value: object) -> object:
    if isinstance(value, int) and not isinstance(value, bool):
        return (int(value),)
    if not isinstance(value, list):
        raise wrong("a bit pattern or a list of them")
    return tuple(int(v) if isinstance(v, Pattern) else v for v in value)


class _InputBase(_Named):
    constant: Annotated[Value, Field(description="One value for all elements.")] = None
    values: Annotated[
        tuple[Value, ...] | None,
        BeforeValidator(_list),
        Field(description="Values in row-major order, as many as the tensor has elements."),
    ] = None
    bits: Annotated[
        tuple[Annotated[int, Field(ge=0, lt=1 << 32)], ...] | None,
        BeforeValidator(_patterns),
        Field(description="Bit patterns in row-major order: 0x7c01, 0b0111110000000001."),
    ] = None
    mixture: Annotated[
        tuple[Part, ...] | None,
        BeforeValidator(_list),
        Field(min_length=1, description="Each element from one of these, by weight."),
    ] = None
    file: Annotated[
        str | None, Field(description="An .npy or .npz file, relative to the case file.")
    ] = None
    key: Annotated[str | None, Field(description="Name of the array in an .npz file.")] = None
    repeat: Annotated[StrictBool, Field(description="Cycle too few values.")] = False
    axis: Annotated[
        Integer | None,
        Field(description="One value per index of this axis, equal along the others."),
    ] = None

    @classmethod
    def kinds(cls) -> list[str]:
        return [*DISTRIBUTION_MODELS, "constant", "values", "bits", "mixture", "file"]


Input: Any = create_model(
    "Input",
    __base__=_InputBase,
    __doc__="Where the values of a tensor come from.",
    **_optional(DISTRIBUTION_MODELS),
)


def per_tensor(kind: str, value: Any, names: tuple[str, ...]) -> Any:
    """A model with one optional key a tensor."""
    fields: dict[str, Any] = dict.fromkeys(names, (value, None))
    doc = f"{kind}, one key a tensor."
    return create_model(f"{kind}PerTensor", __config__=STRICT, __doc__=doc, **fields)


INPUTS = ("grad_output", "self", "buffer")
TENSORS = (*INPUTS, "grad_input")
if TYPE_CHECKING:
    Layouts: TypeAlias = Any
    Inputs: TypeAlias = Any
    Dtypes: TypeAlias = Any
    Shapes: TypeAlias = Any
else:
    Layouts = per_tensor("Layout", Layout, TENSORS)
    Inputs = per_tensor("Input", Input, INPUTS)
    Dtypes = per_tensor("Dtype", Dtype, TENSORS)
    Shapes = per_tensor("Shape", Shape, TENSORS)


class Kernel(BaseModel):
    """How kernels compute and store."""

    model_config = STRICT

    arithmetic: Annotated[Dtype, Field(description="Format of each elementary operation.")] = "fp32"
    rounding: Annotated[
        str,
        Choice(tuple(m.value for m in Rounding)),
        Field(description="Rounding mode of the result."),
    ] = "rne"
    ftz: Annotated[StrictBool, Field(description="Flush subnormal results to zero.")] = False
    block: Annotated[
        Annotated[int, Within("a block", 1, 1 << 30)] | None,
        Field(description="Elements per block."),
    ] = None
    threads: Annotated[
        Annotated[int, Within("threads", 1, 1024)] | None, Field(description="Threads.")
    ] = None
    seed: Annotated[
        Seed | None,
        Field(description="Seed of stochastic rounding; default: the case's."),
    ] = None


class Timing(BaseModel):
    """How a case is timed."""

    model_config = STRICT

    budget: Annotated[Number | None, Field(description="Seconds of timing a row.", gt=0)] = None
    state: Annotated[
        Literal["hot", "cold"],
        Field(description="Caches: as the last run left them, or with other tensors every run."),
    ] = "hot"


class CaseFields(BaseModel):
    """Everything that a case may say; 'defaults' may say all but name and matrix."""

    model_config = STRICT

    dtype: Annotated[Dtype | None, Field(description="Format of the tensors.")] = None
    shape: Shape | None = None
    product: Annotated[
        str, Choice(tuple(PRODUCTS)), Field(description="Whose dtypes the operator supports.")
    ] = DEFAULT_PRODUCT
    layout: Annotated[
        Layouts, Field(description="Layout of each tensor; contiguous by default.")
    ] = None
    input: Annotated[
        Inputs,
        Field(description="Values of each input; default: normal, of std 4 for self."),
    ] = None
    providers: Annotated[
        tuple[Annotated[str, Field(min_length=1)], ...],
        BeforeValidator(_list),
        Field(min_length=1, description="What is judged: kernels and other providers, by name."),
    ] = ("fast", "exact")
    kernel: Annotated[Kernel, Field(description="Options of the kernels.")] = Kernel()
    gates: Annotated[
        dict[str, Any] | None,
        Field(
            description="Figure: limit; the nearest of defaults, case, 'dtypes:' and "
            "'providers:' wins, null removes a gate."
        ),
    ] = {}
    expect: Annotated[
        Literal[0, 161001, 161002] | None,
        Field(description="Status of the first phase; other than 0 nothing is computed."),
    ] = None
    seed: Annotated[Seed, Field(description="Seed of the inputs.")] = 0
    tags: Annotated[Words, Field(description="For lsbench run --tag.")] = ()
    dtypes: Annotated[
        Dtypes, Field(description="Dtypes of single tensors, for negative cases.")
    ] = None
    shapes: Annotated[
        Shapes, Field(description="Shapes of single tensors, for negative cases.")
    ] = None
    grad_output: Null = None
    self_: Annotated[Null, Field(alias="self")] = None
    buffer: Null = None
    grad_input: Null = None
    workspace_size: Null = None
    executor: Null = None
    operator: Annotated[
        StrictBool,
        Field(description="false: past the operator's first phase, as a 0-d tensor needs."),
    ] = True
    throughput: Annotated[
        StrictBool | Timing, Field(description="Whether and how to time the case.")
    ] = True
    reference: Annotated[
        Literal["certified", "mpmath", "arb"] | None, Field(description="Judge of this case.")
    ] = None


class CaseModel(CaseFields):
    """One case."""

    name: Annotated[Word, Field(description="Unique over all files of a run.")]


KEYS = [field.alias or name for name, field in CaseModel.model_fields.items()]
"""The keys of a case, without matrix."""
