"""Open ledgers are charged: nested, suspended, in threads, tasks and searches."""

import asyncio
import contextvars
import math
import threading

import numpy as np
import pytest
from ledgers import interrupt, join, levels
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import GridSearchCV

from skparisk.core.claim import mint
from skparisk.exceptions import BudgetExceededError, IncompatibleError
from skparisk.ledger import PrivacyLedger, _book, _open, check_room, spend, suspend_open
from skparisk.ledger._open import refuse_without_level


def test_nested_ledgers_are_all_charged_or_none(make):
    outer, inner = make(1.0), make(0.5)
    with outer:
        spend(0.1)
        with inner:
            spend(0.2)
            with pytest.raises(BudgetExceededError):
                spend(0.4)
        spend(0.4)
    assert levels(outer) == [0.1, 0.2, 0.4]
    assert levels(inner) == [0.2]


def test_a_ledger_that_is_entered_twice_is_charged_once(make):
    ledger = make(1.0)
    with ledger:
        with ledger:
            spend(0.1)
        spend(0.2)
    spend(0.3)
    assert levels(ledger) == [0.1, 0.2]


def test_two_handles_of_one_file_are_charged_once(tmp_path):
    ledger = PrivacyLedger(1.0, path=tmp_path / "ledger")
    (tmp_path / "link").symlink_to(tmp_path / "ledger")
    with ledger, PrivacyLedger.open(tmp_path / "link") as other:
        spend(0.1)
    assert levels(ledger) == levels(other) == [0.1]


def test_charging_by_hand_charges_one_ledger_only(make):
    ledger, other = make(1.0), make(1.0)
    with other:
        ledger.spend(0.3, note="made elsewhere")
    assert levels(ledger) == [0.3]
    assert other.releases == ()


def test_what_is_suspended_is_not_charged_and_what_is_opened_inside_is(make):
    outer, inner = make(1.0), make(1.0)
    with outer:
        with suspend_open():
            spend(0.1)
            refuse_without_level("a release")
            with inner:
                spend(0.2)
                with suspend_open():
                    spend(0.3)
                with pytest.raises(IncompatibleError):
                    refuse_without_level("a release")
        spend(0.4)
    assert levels(outer) == [0.4]
    assert levels(inner) == [0.2]


def test_what_is_opened_again_inside_is_charged(make):
    ledger = make(1.0)
    with ledger, suspend_open():
        spend(0.1)
        with ledger:
            spend(0.2)
            with suspend_open(), ledger, ledger:
                spend(0.3)
        spend(0.1)
    assert levels(ledger) == [0.2, 0.3]


def test_a_ledger_that_is_closed_elsewhere_stays_open_where_it_is_charged():
    ledger = PrivacyLedger(1.0)
    ledger.__enter__()
    inside = contextvars.copy_context()
    suspension = suspend_open()
    inside.run(suspension.__enter__)
    inside.run(ledger.__enter__)
    ledger.__exit__()
    inside.run(spend, 0.1)
    inside.run(suspension.__exit__, None, None, None)
    inside.run(ledger.__exit__)
    spend(0.2)
    assert levels(ledger) == [0.1]


def suspended():
    """Yield inside of a suspension."""
    with suspend_open():
        yield


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_generators_that_end_in_any_order_leave_nothing_suspended(order):
    with PrivacyLedger(1.0) as ledger:
        generators = suspended(), suspended()
        for generator in generators:
            next(generator)
        generators[order[0]].close()
        spend(0.1)
        generators[order[1]].close()
        spend(0.2)
    assert levels(ledger) == [0.2]


def test_tasks_are_charged_when_the_block_that_started_them_is_over():
    async def work(ready):
        spend(0.1)
        await ready.wait()
        spend(0.2)

    async def main():
        ready = asyncio.Event()
        with suspend_open():
            task = asyncio.create_task(work(ready))
            await asyncio.sleep(0)
        ready.set()
        await task

    with PrivacyLedger(1.0) as ledger:
        asyncio.run(main())
    assert levels(ledger) == [0.2]


def test_a_context_that_is_copied_to_another_thread_is_not_suspended():
    async def main():
        with suspend_open():
            await asyncio.to_thread(spend, 0.1)

    with PrivacyLedger(1.0) as ledger:
        asyncio.run(main())
    assert levels(ledger) == [0.1]


def test_who_interrupts_a_charge_can_neither_release_nor_look(make, monkeypatch):
    ledger, other = make(1.0), make(1.0)
    refused = []

    def handler():
        actions = [
            lambda: spend(0.6),
            ledger.remaining,
            ledger.__enter__,
            lambda: refuse_without_level("a release"),
        ]
        for action in actions:
            with pytest.raises(IncompatibleError):
                action()
            refused.append(1)
        other.spend(0.3)

    interrupt(monkeypatch, _book.Budget, "fits", handler)
    with ledger:
        spend(0.6)
    assert len(refused) == 4
    assert levels(ledger) == [0.6]
    assert levels(other) == [0.3]
    ledger.spend(0.4)  # it is free again


def test_room_is_looked_for_without_a_charge(make):
    outer, inner = make(1.0), make(0.5)
    with outer, inner:
        check_room(0.2, 0.3)
        with pytest.raises(BudgetExceededError, match="Nothing was charged") as info:
            check_room(0.3, 0.3)
        assert info.value.largest_epsilon == 0.5
        spend(0.5)
        with suspend_open():
            check_room(0.3)
    assert levels(outer) == levels(inner) == [0.5]


def test_other_threads_are_not_suspended(make):
    ledger = make(1.0)
    with ledger, suspend_open():
        thread = threading.Thread(target=spend, args=(0.1,))
        thread.start()
        thread.join()
    assert levels(ledger) == [0.1]


def test_a_release_of_unknown_level_is_refused_where_it_had_to_be_recorded(make):
    refuse_without_level("a release")
    with make(math.inf), pytest.raises(IncompatibleError, match=r"^what is not known"):
        refuse_without_level("what is not known")


@pytest.mark.parametrize("n_threads", [8])
def test_threads_never_exceed_the_budget_together(make, n_threads):
    ledger = make(0.4)
    refused = []

    def charge():
        for _ in range(10):
            try:
                spend(0.01)
            except BudgetExceededError:
                refused.append(1)

    with ledger:
        threads = [threading.Thread(target=charge) for _ in range(n_threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert levels(ledger) == [0.01] * 40
    assert len(refused) == 10 * n_threads - 40


def test_threads_that_charge_several_ledgers_do_not_wait_for_each_other(tmp_path):
    first, second = (PrivacyLedger(9.0, path=tmp_path / name) for name in "ab")
    third = PrivacyLedger(9.0)

    def charge(books):
        for _ in range(6):
            _open.charge(books, [mint(epsilon=0.1)], "")

    books = [ledger._book for ledger in (first, third, second)]
    threads = [
        threading.Thread(target=charge, args=(order,), daemon=True)
        for order in (books, books[::-1], books[::2], books[1:2])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        join(thread)
    assert len(first.releases) == len(second.releases) == len(third.releases) == 18


class Model(ClassifierMixin, BaseEstimator):
    """Something that is released when it is fitted."""

    def __init__(self, level=0.1):
        self.level = level

    def fit(self, X, y):
        """Charge its level."""
        spend(self.level)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        """Return anything."""
        return np.zeros(len(X))


def test_a_search_of_scikit_learn_goes_on_after_a_refusal():
    """Nothing is overspent, but only an error that is raised tells of it."""
    X, y = np.zeros((6, 1)), np.arange(6) % 2
    search = GridSearchCV(Model(), {"level": [0.1, 0.8]}, cv=2, refit=False)
    with (
        PrivacyLedger(1.0) as ledger,
        pytest.warns(UserWarning, match="non-finite"),
        pytest.warns(FitFailedWarning),
    ):
        search.fit(X, y)
    assert levels(ledger) == [0.1, 0.1, 0.8]
    assert np.isnan(search.cv_results_["split1_test_score"][1])
    with PrivacyLedger(1.0) as ledger, pytest.raises(BudgetExceededError):
        search.set_params(error_score="raise").fit(X, y)
    assert levels(ledger) == [0.1, 0.1, 0.8]
