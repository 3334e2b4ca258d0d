"""Shards on an existing Dask cluster; a lost worker's shards are run again by others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from lsbench.errors import ProviderError, UsageError
from lsbench.plan import Plan
from lsbench.providers.isolation import Limits
from lsbench.shards import Lost, Outcome, from_plain, run_shard

RETRIES = 3
"""How often a shard may raise, or lose its worker, before the sweep ends with an error."""


def outcomes(
    address: str, plan: Plan, shards: Iterable[int], limits: Limits | None = None
) -> Iterator[Outcome | Lost]:
    """Run shards on the cluster whose scheduler has that address; yield outcomes as they come.

    Each shard counts once, however often it was run. Every worker needs lsbench of this version.
    Raises UsageError where dask.distributed is missing or the scheduler does not answer,
    ProviderError where lsbench itself fails on a shard for good.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError("--dask needs dask.distributed: pip install 'lsbench[dask]'") from None
    dask: Any = distributed  # parts of its interface have no types
    try:
        client = dask.Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise UsageError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        plain, held = plan.to_plain(), asdict(limits or Limits())
        futures = [
            client.submit(run_shard, plain, shard, held, pure=False, retries=RETRIES)
            for shard in shards
        ]
        try:
            # Left to itself it waits in the loop of another client, if there is one.
            for future in dask.as_completed(futures, loop=client.loop):
                failure = future.exception()
                if failure is not None:
                    raise ProviderError(f"a shard failed on the cluster: {failure}")
                yield from_plain(future.result())
        finally:
            client.cancel(futures)
