"""The worked example of docs/reference/advise.md: each figure of its tables from its arithmetic."""

import ast
import operator

from serving import ROOT

PAGE = (ROOT / "docs" / "reference" / "advise.md").read_text()

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}

TABLES = ["### Reproduced", "### Pointed out", "### The daily job alone"]


def value(text: str, names: dict[str, float]) -> float:
    """Evaluates an expression of numbers, names, `+ - * /` and parentheses."""

    def of(node) -> float:
        match node:
            case ast.BinOp(left, sign, right):
                return OPERATORS[type(sign)](of(left), of(right))
            case ast.Name(name):
                return names[name]
            case ast.Constant(number):
                return float(number)
        raise AssertionError(f"{text}: {ast.dump(node)}")

    return of(ast.parse(text, mode="eval").body)


def rows(heading: str) -> list[list[str]]:
    """Returns the rows of the tables below a heading, up to the next heading of the same level."""
    part = PAGE.split(heading)[1].split("\n### ")[0]
    lines = [line for line in part.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def inputs() -> dict[str, float]:
    names: dict[str, float] = {}
    for keys, texts, *_ in rows("## A worked example")[1:]:
        for key, text in zip(keys.split(", "), texts.split(", "), strict=True):
            names[key.strip("`")] = value(text, names)
    return names


def decimals(text: str) -> int:
    return len(text.partition(".")[2])


def test_each_figure_is_computed_and_the_report_is_reproduced():
    names, computed = inputs(), 0
    for heading in TABLES:
        for row in rows(heading):
            _, report, figure, arithmetic = row
            if arithmetic == "arithmetic":
                continue
            assert f"{value(arithmetic, names):.{decimals(figure)}f}" == figure, row
            computed += 1
            if heading == "### Reproduced":
                assert abs(float(report) - float(figure)) <= 1.001 * 10 ** -decimals(report), row
    assert computed > 70
