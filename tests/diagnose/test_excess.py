"""More bytes through device memory than must be, as an opportunity of its own."""

from __future__ import annotations

from typing import Any

import pytest

from warpsmith.contracts.audit import OpportunityKind
from warpsmith.contracts.case import Mode
from warpsmith.contracts.profile import PricedOpportunity
from warpsmith.diagnose.bottleneck import classify
from warpsmith.diagnose.evidence import Evidence
from warpsmith.diagnose.pricing import priced_opportunities, prices
from warpsmith.diagnose.roofline import baselines

#: The least of a forward pass at 8192×4096 in bf16.
LEAST = 2 * 8192 * 4096 * 2


def found_excess(evidence: Evidence) -> list[PricedOpportunity]:
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    profile = classify(Mode.FORWARD, evidence, rows)
    priced = priced_opportunities(prices(evidence, [profile], rows), Mode.FORWARD)
    return [p for p in priced if p.opportunity.kind is OpportunityKind.EXCESS_TRAFFIC]


def moved(made: Any, *shares: float, kernels: tuple[str, ...] = (), **changes: Any) -> Evidence:
    """Each launch moves this share of the least bytes, half of it read."""
    case = made.case(8192, 4096)
    metrics = [{"dram__bytes_read.sum": s * LEAST / 2, "dram__bytes_write.sum": s * LEAST / 2} for s in shares]
    counters = (made.counters(case, *metrics, kernels=kernels),)
    evidence: Evidence = made.evidence(
        made.spec(case), made.timing_at(case, Mode.FORWARD, 0.4), counters=counters, **changes
    )
    return evidence


def traffic(evidence: Evidence) -> str:
    """What the bytes through device memory support."""
    rows = baselines(evidence.spec, evidence.timings, (), evidence.device)
    found = classify(Mode.FORWARD, evidence, rows).evidence
    return next(row.supports for row in found if row.signal.startswith("bytes through DRAM"))


def test_half_as_much_again_is_priced_at_the_ceiling(made: Any) -> None:
    (priced,) = found_excess(moved(made, 1.5, kernels=("_forward_kernel",)))

    at_ceiling_us = LEAST / 4100e3
    assert (priced.opportunity.function, priced.opportunity.line) == ("_forward_kernel", 1)
    assert priced.opportunity.what == (
        "201.3 MB cross device memory at 8192x4096-bf16 where 134.2 MB must: 1.50 times as much"
    )
    assert (priced.low_us, priced.high_us) == (pytest.approx(0.25 * at_ceiling_us), pytest.approx(0.5 * at_ceiling_us))
    assert priced.predicted_high == pytest.approx(1 / (1 - 0.4 * 0.5))


@pytest.mark.parametrize(("dram_pct", "price"), [(7.0, False), (59.0, False), (75.0, True)])
def test_bytes_too_many_have_no_price_where_dram_is_not_what_is_waited_for(
    made: Any, dram_pct: float, price: bool
) -> None:
    case = made.case(8192, 4096)
    metrics = {
        "dram__bytes_read.sum": float(LEAST),
        "dram__bytes_write.sum": float(LEAST),
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": dram_pct,
    }
    evidence = made.evidence(
        made.spec(case), made.timing_at(case, Mode.FORWARD, 0.3), counters=(made.counters(case, metrics),)
    )

    (priced,) = found_excess(evidence)

    assert (priced.high_us > 0) is price
    assert price or f"DRAM is at {dram_pct:.0f}% of its peak" in priced.basis


def test_without_its_counter_dram_is_as_busy_as_the_counted_bytes_make_it(made: Any) -> None:
    (priced,) = found_excess(moved(made, 1.2))  # at 40% of the ceiling

    assert (priced.high_us, priced.case) == (0.0, None)
    assert "DRAM is at 48% of its peak" in priced.basis


@pytest.mark.parametrize("share", [0.68, 1.0, 1.09])
def test_bytes_below_the_least_or_a_little_above_are_no_opportunity(made: Any, share: float) -> None:
    assert found_excess(moved(made, share)) == []


def test_without_counters_there_is_none(made: Any) -> None:
    case = made.case(8192, 4096)
    assert found_excess(made.evidence(made.spec(case), made.timing_at(case, Mode.FORWARD, 0.4))) == []


def test_it_is_about_the_jit_function_that_moves_most(made: Any) -> None:
    kernels = ("void at::native::elementwise<FillFunctor<float>>", "_forward_kernel_0d1d", "_backward_kernel")

    (priced,) = found_excess(moved(made, 0.3, 0.6, 0.7, kernels=kernels))

    assert priced.opportunity.function == "_backward_kernel"


LIBRARY = ("nvjet_tst_128x128", "nvjet_tst_256x128", "_forward_kernel")


def test_what_the_kernels_of_a_library_move_together_has_no_price_but_a_row_that_says_so(made: Any) -> None:
    evidence = moved(made, 0.8, 0.7, 0.9, kernels=LIBRARY)

    assert found_excess(evidence) == []
    assert traffic(evidence) == (
        "most of the bytes are moved by nvjet_tst_128x128, a library kernel: no kernel of this source moves them"
    )


def test_a_jit_function_of_another_file_is_no_opportunity_of_this_one(made: Any) -> None:
    case = made.case(8192, 4096)
    launches = {case.name: {Mode.FORWARD: (made.launch(), made.launch("_imported_kernel"))}}
    evidence = moved(made, 0.4, 1.5, kernels=("_forward_kernel", "_imported_kernel"), launches=launches)

    assert found_excess(evidence) == []
    assert "_imported_kernel, a jit function of another file" in traffic(evidence)


def test_where_the_own_kernel_moves_most_the_row_names_no_library(made: Any) -> None:
    assert "library" not in traffic(moved(made, 0.4, 1.5, kernels=("nvjet", "_forward_kernel")))


def test_the_gain_does_not_pass_the_headroom(made: Any) -> None:
    (priced,) = found_excess(moved(made, 40.0))

    assert priced.predicted_high == pytest.approx(1 / 0.4)
