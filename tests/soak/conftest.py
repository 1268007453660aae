"""What stands in the modules beside the tests is told as fully as what stands in a test, when it is not so."""

import pytest

pytest.register_assert_rewrite("tests.soak.walk", "tests.soak.kills")
