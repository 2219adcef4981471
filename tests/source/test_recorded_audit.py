"""The audit of the recorded run's original, on which the order of its strategies and the pages depend."""

from __future__ import annotations

from pathlib import Path

from warpsmith.source.scan import scan

ORIGINAL = Path(__file__).parents[2] / "benchmark" / "data" / "rms_norm" / "original_rms_norm.py"


def test_the_recorded_original_keeps_its_knobs() -> None:
    audit = scan(ORIGINAL.read_text(encoding="utf-8"))
    knobs = [(k.id, k.origin.value, k.line, k.tunable) for k in audit.knobs if not k.is_unset_cap]

    assert knobs == [
        ("_rms_norm_forward_kernel.num_warps", "helper", 132, True),
        ("_rms_norm_forward_kernel.num_stages", "absent", 136, True),
        ("_rms_norm_forward_kernel.BLOCK_SIZE", "helper", 132, False),
        ("_rms_norm_backward_kernel.num_warps", "helper", 167, True),
        ("_rms_norm_backward_kernel.num_stages", "absent", 169, True),
        ("_rms_norm_backward_kernel.BLOCK_SIZE", "helper", 167, False),
        ("_rms_norm_backward_kernel.programs_per_sm", "sm_count", 162, True),
    ]
    assert [k.id for k in audit.knobs if k.is_unset_cap] == [
        "_rms_norm_forward_kernel.maxnreg",
        "_rms_norm_backward_kernel.maxnreg",
    ]


def test_what_strategies_work_on_comes_first_and_what_is_for_a_person_after_it() -> None:
    audit = scan(ORIGINAL.read_text(encoding="utf-8"))

    assert [(o.kind.value, o.function, o.line) for o in audit.opportunities] == [
        ("row_a_program", "_rms_norm_forward_kernel", 57),
        ("stream_once", "_rms_norm_forward_kernel", 61),
        ("stored_once", "_rms_norm_forward_kernel", 71),
        ("unpipelined_loop", "_rms_norm_backward_kernel", 100),
        ("stream_once", "_rms_norm_backward_kernel", 101),
        ("stored_once", "_rms_norm_backward_kernel", 110),
        ("stepped_warps", "rms_norm_forward", 132),
        ("one_program_per_sm", "_rms_norm_backward_kernel", 162),
        ("needless_initialisation", "rms_norm_backward", 166),
        ("stepped_warps", "rms_norm_backward", 167),
        ("contiguous_copy", "rms_norm", 256),
    ]
    assert audit.not_covered == ()
