"""The one suite of the Store port. A backend provides `fresh`, and adds nothing, skips nothing, overrides nothing."""

from collections.abc import Callable

import pytest

from tests.conformance.bench import Bench
from tests.conformance.store_suite_claims import Claims
from tests.conformance.store_suite_commit import Commits
from tests.conformance.store_suite_histories import Histories
from tests.conformance.store_suite_kept import Kept
from tests.conformance.store_suite_limits import Limits
from tests.conformance.store_suite_lists import Lists
from tests.conformance.store_suite_queue import Queue
from tests.conformance.store_suite_retiring import Retiring
from tests.conformance.store_suite_runs import Runs


class StoreConformance(Commits, Claims, Runs, Limits, Histories, Queue, Lists, Kept, Retiring):
    """Subclass it and provide the fixture `fresh`: each call of it returns the bench of a new ledger."""

    @pytest.fixture
    def bench(self, fresh: Callable[[], Bench]) -> Bench:
        """One ledger, for the tests that need no more."""
        return fresh()
