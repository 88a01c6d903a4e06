"""How a process tells workers of Dask that it has an open ledger.

They may run on other machines, and need not descend from the process that sends them
work. So it tells the schedulers that it is a client of, and workers ask theirs.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from skparisk.ledger._marker import any_held

_KEY = "skparisk-ledgers"


def tell_clusters(*, is_open: bool) -> None:
    """Tell the schedulers of this process whether a ledger is open in it.

    A worker is no client of its own scheduler: what it opens is about its own releases.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or _schedulers_of_workers(distributed):
        return
    for client in list(distributed.Client._instances):
        if client.status == "running" and not client.asynchronous:
            # A scheduler that is gone has no workers that need to know.
            with contextlib.suppress(OSError):
                client.set_metadata([_KEY, client.id], is_open)


def told_by_a_client() -> bool:
    """Tell if this is a worker of Dask, and a client may have a ledger open.

    Any process of this user on this machine may be one.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return False
    schedulers = _schedulers_of_workers(distributed)
    return bool(schedulers) and (
        any_held() or any(_is_told(distributed, address) for address in schedulers)
    )


def _schedulers_of_workers(distributed: Any) -> list[str]:
    """Return the schedulers that this process works for, but not those that it has."""
    workers = list(distributed.Worker._instances)
    addresses = {str(worker.scheduler.address) for worker in workers}
    return [address for address in addresses if not address.startswith("inproc://")]


def _is_told(distributed: Any, address: str) -> bool:
    def ask(dask_scheduler: Any) -> bool:
        # Sent as it is here, as a scheduler need not have this package.
        told = dask_scheduler.task_metadata.get("skparisk-ledgers", {})
        return any(told[name] for name in told if name in dask_scheduler.clients)

    return bool(distributed.get_client(address).run_on_scheduler(ask))
