"""The environments of shape keep the contract."""

import pytest

from verigym.envs import check_env, load


@pytest.mark.slow
@pytest.mark.parametrize("name", ["effort", "length", "overlong", "paragraphs", "repetition"])
def test_it_keeps_its_contract(name: str) -> None:
    check_env(load(name)).raise_if_failed()
