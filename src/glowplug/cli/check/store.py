"""`glowplug check store`: what these credentials may do there, tried the way a start and a publisher would.

A wrong address or a missing part of glowplug is an error as everywhere; whatever the other side answers is a check, also silence.
"""

from __future__ import annotations

import os

import click

from glowplug.cli.check import text
from glowplug.cli.examples import epilog
from glowplug.cli.output import Output, output_option
from glowplug.cli.run import Duration
from glowplug.core.clock import Deadline
from glowplug.core.errors import AccessDeniedError, UnavailableError, UsageError


@click.command(
    "store",
    epilog=epilog(
        "Exit status: 0 all of it works; 1 something fails or warns.",
        "glowplug check store --store s3://bucket/cache",
        "glowplug check store --store s3://bucket/cache --domain team-a --read-only  # with a pod's credentials",
        "glowplug check store -o json | jq '.checks[] | select(.status != \"pass\")'",
    ),
)
@click.option("--store", metavar="URL", help="The store: s3://, gs://, az:// or file://.")
@click.option("--domain", default="default", show_default=True, help="Trust domain.")
@click.option("--read-only", is_flag=True, help="Do not try to write: what a start needs that publishes nothing.")
@click.option("--timeout", type=Duration(), default="20s", show_default=True, help="Give up on the store after this.")
@output_option
@click.pass_context
def command(
    context: click.Context, store: str | None, domain: str, read_only: bool, timeout: float, output: Output
) -> None:
    """Say whether a store is reached, in the region that clients are told, may be listed, read and written, and is switched on.

    Writing is tried with one empty object, which is removed again.
    """
    from glowplug.check import local
    from glowplug.check import store as checking
    from glowplug.check.results import Check, Checks
    from glowplug.core import bounded
    from glowplug.store import endpoints
    from glowplug.store.schemes import open_store

    if not store:
        raise UsageError("no store is named", hint="give --store URL, or set GLOWPLUG_STORE")
    if not domain:
        raise UsageError("the name of a domain is not empty")
    deadline = Deadline.after(timeout)
    told = endpoints.region(os.environ) or ""
    found: tuple[Check, ...]
    try:
        opened = bounded.call(lambda: open_store(store, os.environ), deadline, "looking for credentials for the store")
    except (AccessDeniedError, UnavailableError) as error:
        found = checking.unopened(error)
    else:
        found = checking.absent(opened.url, deadline) or checking.readable(opened, domain, deadline)
        reached = any(check.name == "reach" and check.status == "pass" for check in found)
        admitted = any(check.name in ("list", "read") and check.status == "pass" for check in found)
        if reached:
            found += tuple(
                checking.place(opened.url, lambda bucket: local.region_of(bucket, os.environ, deadline, told), told)
            )
        if admitted and not read_only:
            found += checking.writable(opened, domain, deadline)
    answer = Checks(found)
    text.show(output, answer)
    text.finish(context, answer)
