"""`lsbench acl`: what a compiler needs to use the operator's C interface."""

from __future__ import annotations

import shlex

import click


@click.command()
@click.option("--cflags", is_flag=True, help="Print where the headers are.")
@click.option("--libs", is_flag=True, help="Print what to link with.")
@click.option("--rpath", is_flag=True, help="Print how the program finds the library.")
@click.option("--example", is_flag=True, help="Print the path of an example program.")
def command(cflags: bool, libs: bool, rpath: bool, example: bool) -> None:
    """Print what a compiler needs to use the operator's C interface.

    g++ program.cpp $(lsbench acl --cflags --libs --rpath)

    Without an option: the headers and the library, and what computes behind them. The environment
    chooses the kernel (LSBENCH_ACL_KERNEL), the product (LSBENCH_ACL_PRODUCT), the instruction set
    (LSBENCH_ISA) and a list of leaks at the end (LSBENCH_ACL_CHECK=1).
    """
    from lsbench import _acl

    library = _acl.library()
    words = []
    if cflags:
        words.append(f"-I{_acl.INCLUDE}")
    if libs:
        words += [f"-L{_acl.LIB}", f"-l{_acl.NAME}"]
    if rpath:
        words.append(f"-Wl,-rpath,{_acl.LIB}")
    if words:
        click.echo(shlex.join(words))
    if example:
        click.echo(_acl.EXAMPLE)
    if not words and not example:
        from lsbench.providers.acl import own_description

        computes = own_description()
        click.echo(f"headers  {_acl.INCLUDE}")
        click.echo(f"library  {library}")
        click.echo(f"example  {_acl.EXAMPLE}")
        click.echo(f"computes {computes}")
