"""Shamir's secret sharing: any threshold of the shares determine the secret, fewer reveal nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from filmtransfer.federated import shamir


def test_the_field_is_a_field():
    """Miller and Rabin with forty bases; and no smaller number above 2²⁵⁶ would do."""

    def prime(n):
        odd, twos = n - 1, 0
        while odd % 2 == 0:
            odd, twos = odd // 2, twos + 1
        for base in range(2, 42):
            x = pow(base, odd, n)
            if x not in (1, n - 1) and all((x := x * x % n) != n - 1 for _ in range(twos - 1)):
                return False
        return True

    assert prime(shamir.PRIME)
    assert not any(prime(n) for n in range(2**256 + 1, shamir.PRIME, 2))


@given(st.binary(min_size=32, max_size=32), st.integers(1, 8), st.integers(0, 4), st.randoms())
@settings(deadline=None, max_examples=40)
def test_any_threshold_of_shares_give_the_secret(secret, threshold, more, random):
    shares = dict(enumerate(shamir.split(secret, threshold, threshold + more), start=1))
    some = dict(random.sample(sorted(shares.items()), threshold))
    assert shamir.combine(some) == secret
    assert shamir.combine(shares) == secret
    if threshold > 1:
        some.popitem()
        try:
            assert shamir.combine(some) != secret
        except ValueError:
            pass


def test_secrets_at_the_ends_of_the_field_and_false_shares():
    for secret in (bytes(32), b"\xff" * 32):
        shares = shamir.split(secret, 2, 3)
        assert shamir.combine({1: shares[0], 3: shares[2]}) == secret
    with pytest.raises(ValueError, match="not a share"):
        shamir.combine({1: b"\xff" * 33, 2: shares[1]})
    with pytest.raises(ValueError, match="threshold"):
        shamir.split(bytes(32), 4, 3)


def test_shares_below_the_threshold_look_alike_for_all_secrets():
    """With threshold 2 a single share is uniform: its bits are as often 1 for one secret as for another."""
    for secret in (bytes(32), b"\xff" * 32):
        ones = sum(int.from_bytes(shamir.split(secret, 2, 2)[1]).bit_count() for _ in range(400))
        assert abs(ones / 400 / 256 - 0.5) < 0.01  # 6 standard deviations
