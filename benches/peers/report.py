"""Figures and Markdown. Knows how things are said, not how they are measured."""


def rounded(value: float) -> str:
    """Three figures that mean something."""
    if value >= 100:
        return f"{value:.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 1 else f"{value:.3f}"


def micro(seconds: float) -> str:
    return f"{rounded(seconds * 1e6)} µs" if seconds < 0.01 else milli(seconds)


def milli(seconds: float) -> str:
    return f"{rounded(seconds * 1e3)} ms" if seconds < 10 else f"{rounded(seconds)} s"


def times(ratio: float) -> str:
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def table(heads: list[str], rows: list[list[str]]) -> str:
    rule = "|" + "---|" * len(heads) + "\n"
    lines = ["| " + " | ".join(cells) + " |\n" for cells in [heads, *rows]]
    return "".join([lines[0], rule, *lines[1:]])


def target_row(
    what: str, ours: float, reference: str, theirs: float, most: float | None, least: float | None
) -> list[str]:
    """One promise in the columns of the other benchmarks. `least` is what counts where the target is missed."""
    ratio = ours / theirs
    if most is None:
        return [what, micro(ours), f"{reference} {micro(theirs)}", times(ratio), "–", "–"]
    if ratio <= most:
        met = "yes"
    elif least is not None and ratio <= least:
        met = f"within {least}×"
    else:
        met = "**no**"
    target = f"≤ {most}×" + (f" ({least}× counts)" if least else "")
    return [what, micro(ours), f"{reference} {micro(theirs)}", times(ratio), target, met]


TARGET_HEADS = ["what", "ours", "reference", "ratio", "target", "met"]
