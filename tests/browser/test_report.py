"""The report page in a real browser, at phone and desktop width: no request, no error, and a table
for every chart.

`REPORT_SHOTS=DIR` keeps screenshots.
"""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import time

import made_results
import pytest
from pages import AXE, PATIENCE_MS, ROOT, TARGET, browser, violations
from waiting import until

SHOTS = os.environ.get("REPORT_SHOTS")
PHONE, DESKTOP = (360, 740), (1440, 900)
RUNS = 10_000


@pytest.fixture
def made(tmp_path):
    """Makes the report page of a results file, and returns its address."""

    def make(text):
        results, page = tmp_path / "made.jsonl", tmp_path / "report.html"
        results.write_text(text)
        subprocess.run([TARGET / "debug" / "firstbyte", "bench", "report", results, "--out", page], check=True)
        return page.as_uri()

    return make


@pytest.fixture
def advised(tmp_path):
    """Makes the page of an advice, and returns its address."""
    page = tmp_path / "advice.html"
    workload = ["--data", "5GB", "--read", "100MB", "--deadline", "29s", "--at", "lambda:3008MB", "--day", "2026-11-23"]
    subprocess.run([TARGET / "debug" / "firstbyte", "advise", "run", *workload, "--page", page], check=True, stdout=subprocess.DEVNULL)
    return page.as_uri()


@pytest.fixture
def opened(browser):
    """Opens pages of a given size. Fails if a page had an error, or requested anything besides
    itself.
    """
    contexts, problems, requests = [], [], []

    def start(url, size, **more):
        contexts.append(browser.new_context(viewport={"width": size[0], "height": size[1]}, **more))
        contexts[-1].set_default_timeout(PATIENCE_MS)
        contexts[-1].add_init_script(path=AXE)
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda m: m.type in ("error", "warning") and problems.append(m.text))
        page.on("request", lambda request: request.url not in (url, "data:,") and requests.append(request.url))
        page.goto(url)
        return page

    yield start
    for context in contexts:
        context.close()
    assert not problems, problems
    assert not requests, requests


def draw_all(page):
    """Scrolls through the page, because a chart is drawn when it becomes visible."""
    for figure in page.locator("figure.chart").all():
        figure.scroll_into_view_if_needed()
        figure.locator("canvas").wait_for()
    page.evaluate("scrollTo(0, 0)")


def shoot(page, name):
    if SHOTS:
        page.screenshot(path=pathlib.Path(SHOTS) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_it_opens_on_phone_and_desktop(made, opened, size, scheme):
    page = opened(made(made_results.results()), size, color_scheme=scheme)
    draw_all(page)
    shoot(page, f"{size[0]}-{scheme}")
    charts = page.locator("figure.chart")
    assert charts.count() >= 6, "runs of three cases, throughput, two of scaling"
    assert page.locator("figure.chart canvas").count() == charts.count()
    for figure in charts.all():
        assert figure.locator("table tr").count() > 1, figure.inner_text()
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= size[0], f"{width} px on a screen of {size[0]}"
    # If the figures of a contender do not fit next to each other, they are stacked.
    sideways = "[...document.querySelectorAll('.scroll:has(.summary)')].filter((e) => e.scrollWidth > e.clientWidth).length"
    assert size != PHONE or page.evaluate(sideways) == 0
    assert "report" in page.title(), "no text of the results ran as a script"


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_advice_opens_on_phone_and_desktop_with_a_table_beside_each_chart(advised, opened, size):
    page = opened(advised, size)
    draw_all(page)
    shoot(page, f"advice-{size[0]}")
    charts = page.locator("figure.chart")
    assert charts.count() == page.locator("figure.chart canvas").count() == 7
    for figure in charts.all():
        assert figure.locator("table:not(.u-legend) tr").count() == 26, figure.inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert "advice" in page.title()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_axe_finds_nothing_in_a_report_and_in_an_advice(made, advised, opened, size, scheme):
    for url in [made(made_results.results()), advised]:
        page = opened(url, size, color_scheme=scheme)
        draw_all(page)
        for details in page.locator("details > summary").all():
            details.click()
        assert violations(page) == [], url


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_its_top_says_what_it_means_and_where_it_was_measured(made, opened, size):
    page = opened(made(made_results.results()), size)
    meaning = page.locator(".meaning").inner_text()
    assert re.fullmatch(r"In short: firstbyte takes [\d.]+x the time of the fastest other program, .+\.", meaning), meaning
    facts = dict(zip(page.locator("dt").all_inner_texts(), page.locator("dd").all_inner_texts()))
    assert facts["Date"] == "2026-11-23 09:40:00 UTC" and facts["Kernel"] == "Linux 6.1.0"
    assert facts["Processor"] == "2 x Example(R) Processor @ 2.60GHz"
    assert facts["Command"].startswith("firstbyte bench run s3://bench/big.bin") and "0.1.0" in facts["Program"]
    # The text after each stand-in's name says what the stand-in replaces.
    for stand_in in page.locator(".stand-in").all():
        assert "in place of" in stand_in.inner_text()


def test_it_is_complete_without_scripts(made, opened):
    page = opened(made(made_results.results()), DESKTOP, java_script_enabled=False)
    text = page.locator("body").inner_text()
    for wanted in ["s5cmd", "stand-in", "0.6 Gbit/s", "Kept out of the summary", "page cache before the run", "emulated", "exit code 1"]:
        assert wanted in text, wanted
    assert page.locator(".bar").count() > 10


def test_it_follows_the_colour_scheme_and_the_width(made, opened):
    page = opened(made(made_results.results()), DESKTOP, color_scheme="light")
    draw_all(page)
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    # `wait_for_function` cannot be used: it evaluates text inside the page, which the page's policy
    # refuses.
    narrow = f"[...document.querySelectorAll('.u-wrap')].every((plot) => plot.offsetWidth < {PHONE[0]})"
    until("the charts have the new width", lambda: page.evaluate(narrow))
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_ten_thousand_runs_load_and_are_listed(made, opened):
    url = made(made_results.many(RUNS))
    began = time.monotonic()
    page = opened(url, DESKTOP)
    page.wait_for_selector("body[data-ready]")
    page.locator("figure.chart canvas").first.wait_for()
    print(json.dumps({"runs": RUNS, "seconds": round(time.monotonic() - began, 3)}))
    page.locator("details.raw summary").click()
    page.wait_for_selector(f"details.raw[data-complete='{RUNS}']")
    assert page.locator("details.raw tbody tr").count() == RUNS


def test_the_chart_library_is_what_its_note_says():
    folder = ROOT / "crates" / "bench" / "src" / "report" / "uplot"
    noted = dict(reversed(line) for line in re.findall(r"^([0-9a-f]{64})  (\S+)$", (folder / "README.md").read_text(), re.M))
    for name in ["uPlot.iife.min.js", "uPlot.min.css"]:
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == noted[name], name
