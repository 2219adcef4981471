"""What reading rms_norm's source tells, built by hand."""

from __future__ import annotations

from warpsmith.contracts.audit import (
    JitFunction,
    Knob,
    KnobKind,
    KnobOrigin,
    LaunchSite,
    Opportunity,
    OpportunityKind,
    Pattern,
    PatternKind,
    SourceAudit,
    Tier,
)

OPPORTUNITIES = (
    Opportunity(
        kind=OpportunityKind.ONE_PROGRAM_PER_SM,
        function="rms_norm_backward",
        line=164,
        what="one program an SM loops over the rows",
        why="With 8 of 64 warps an SM has too few loads in flight to hide latency.",
    ),
    Opportunity(
        kind=OpportunityKind.NEEDLESS_INITIALISATION,
        function="rms_norm_backward",
        line=168,
        what="dw_partial is zeroed and then wholly overwritten",
        why="The memset is a launch and a pass of writes.",
    ),
    Opportunity(
        kind=OpportunityKind.STREAM_ONCE,
        function="_rms_norm_forward_kernel",
        line=61,
        what="rows are read once, without an eviction policy",
        why="A stream that is marked to leave first does not evict what is read again.",
    ),
    Opportunity(
        kind=OpportunityKind.PERFORMANCE_TODO,
        function="_rms_norm_backward_kernel",
        line=99,
        what="a comment has an idea for speed: two rows at a time | needs registers",
        why="Its author thought of it.",
    ),
)

PATTERNS = (
    Pattern(
        kind=PatternKind.MASK,
        function="_rms_norm_forward_kernel",
        lines=(57, 61),
        what="one mask, columns < n_cols, on every load",
    ),
    Pattern(
        kind=PatternKind.CAST, function="_rms_norm_backward_kernel", lines=(101,), what="bfloat16 | float16 to float32"
    ),
    Pattern(kind=PatternKind.MASK, function="_rms_norm_backward_kernel", lines=(96,), what="columns < n_cols"),
)


def opportunity(kind: OpportunityKind) -> Opportunity:
    return next(each for each in OPPORTUNITIES if each.kind is kind)


def audit() -> SourceAudit:
    def knob(function: str, name: str, kind: KnobKind, line: int, **rest: object) -> Knob:
        host = function.strip("_").removesuffix("_kernel")
        values = {
            "id": f"{function}.{name}",
            "jit_function": function,
            "host_function": host,
            "name": name,
            "kind": kind,
            "line": line,
            "anchor_line": line,
            "variable": name,
            "origin": KnobOrigin.HELPER,
            "expression": "_launch_settings(n_cols)",
            "tunable": True,
        }
        return Knob.model_validate({**values, **rest})

    forward, backward = "_rms_norm_forward_kernel", "_rms_norm_backward_kernel"
    return SourceAudit(
        tier=Tier.REDUCTION,
        jit_functions=(
            JitFunction(
                name=forward, line=46, tier=Tier.REDUCTION, has_loop=False, loads=2, stores=2, atomics=0, reductions=1
            ),
            JitFunction(
                name=backward, line=78, tier=Tier.REDUCTION, has_loop=True, loads=4, stores=2, atomics=0, reductions=1
            ),
        ),
        launches=(
            LaunchSite(jit_function=forward, host_function="rms_norm_forward", line=137, grid="(n_rows,)"),
            LaunchSite(jit_function=backward, host_function="rms_norm_backward", line=172, grid="(programs,)"),
        ),
        knobs=(
            knob(forward, "num_warps", KnobKind.NUM_WARPS, 132),
            knob(
                forward,
                "BLOCK_SIZE",
                KnobKind.BLOCK_COVERING,
                132,
                tunable=False,
                why_not="a block must hold the whole row",
            ),
            knob(backward, "num_warps", KnobKind.NUM_WARPS, 170),
            knob(
                backward,
                "programs",
                KnobKind.PROGRAMS_PER_SM,
                164,
                origin=KnobOrigin.SM_COUNT,
                expression="torch.cuda.get_device_properties(x.device).multi_processor_count",
            ),
        ),
        opportunities=OPPORTUNITIES,
        patterns=PATTERNS,
        not_covered=("line 212: grid computed by a lambda",),
    )
