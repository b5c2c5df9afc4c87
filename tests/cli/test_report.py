"""``drl report`` as it is typed, and the page that it writes, read by a parser of HTML."""

import re
from html.parser import HTMLParser

import pytest
from fake_runs import evaluation, row, write_run

from drl_cli import cli

HOSTILE = "</title><script src=http://evil.example/a.js></script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Two SAC runs with evaluations and timers, and one TD3 run."""
    root = tmp_path / "results"
    monkeypatch.setenv("TUNE_RESULT_DIR", str(root))
    monkeypatch.chdir(tmp_path)
    timers = {"sample_s": 1.0, "learn_s": 0.5, "evaluate_s": 0.0}
    for seed in (1, 2):
        rows = [row(n, evaluation=evaluation(n, -100.0 * seed), timers=timers) for n in range(1, 4)]
        write_run(root, seed, rows, config={"seed": seed, "gamma": 0.9}, experiment="sac")
    write_run(root, 3, [row(1), row(2)], run="TD3", experiment="td3")
    return root


class Page(HTMLParser):
    """The tags of a page with their attributes, and its text by the tag around it."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], {}, []
        self.feed(text)
        assert self.open == [], "tags are not closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words[self.open[-1] if self.open else ""] = self.words.get(self.open[-1] if self.open else "", "") + data


def report(capsys, *words, code=0):
    assert cli.main(["report", *map(str, words)]) == code
    return capsys.readouterr()


def read(path):
    """Return the parsed page; fails where it would load anything."""
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert not {"script", "link", "iframe", "img", "object", "embed", "base"} & {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on") or name == "href"}, (tag, attributes)
        assert (attributes.get("src") or "data:").startswith("data:")
    assert not re.search(r"@import|url\(", page.words["style"])
    assert "default-src 'none'" in text and len(text.encode()) <= 5_000_000
    return page


def test_report_of_a_run_says_what_it_was_and_loads_nothing(results, capsys, tmp_path):
    shown = report(capsys, "sac", "-o", "a.html")
    page = read(tmp_path / "a.html")
    assert (shown.out, shown.err) == ("", "Wrote a.html\n")
    assert page.words["title"] == "SAC on Pendulum-v1"
    assert "2 runs, 1 configuration" in page.words["p"] and "seeds 1, 2 (finished)" in page.words["p"]
    assert "-150 ± 70.71" in page.words["td"] and "gamma" in page.words["td"]
    assert {"Scores", "Configuration", "Checkpoints"} <= set(re.findall("[A-Z][a-z]+", page.words["h2"]))
    classes = [attributes.get("class", "") for tag, attributes in page.tags if tag == "path"]
    assert classes.count("band s0") == 4 and classes.count("raw s0") == 8, "two figures, each drawn in two widths"
    assert "goal -200" in page.words["text"]


def test_report_of_several_configurations_compares_them(results, capsys, tmp_path):
    report(capsys, "sac", "td3")
    page = read(tmp_path / "report.html")
    assert page.words["title"] == "SAC, TD3 on Pendulum-v1"
    assert "SAC (2 seeds)" in page.words["span"] and "TD3" in page.words["span"]
    assert "left out, without greedy evaluation" in page.words["p"]


def test_report_escapes_html_in_names_keys_values_and_events(results, capsys, tmp_path):
    events = [
        (9, "bottleneck", {"name": "learning", "text": HOSTILE, "shares": {}}),
        (12, "goal", {"metric": HOSTILE, "target": 1.0, "value": 2.0, "seconds": 3.0, "timesteps_total": 5}),
    ]
    config = {"seed": 7, "env_config": {HOSTILE: HOSTILE}, "gamma": 0.9}
    run = write_run(
        results,
        7,
        [row(1), row(2)],
        {"text": HOSTILE},
        events,
        config=config,
        env=HOSTILE.replace("/", ""),
        experiment="x",
    )
    (run / "versions.json").write_text('{"command": ["<b>drl</b>"], "platform": "<i>"}', encoding="utf-8")
    report(capsys, "x", "--title", HOSTILE)
    page = read(tmp_path / "report.html")
    assert page.words["title"] == page.words["h1"] == HOSTILE
    assert HOSTILE in page.words["td"] and HOSTILE in page.words["p"] and "<b>drl</b>" in page.words["p"]


def test_small_film_is_embedded_and_large_ones_are_named(results, capsys, tmp_path):
    run = write_run(results, 8, [row(1), row(2)], experiment="film")
    (run / "videos").mkdir()
    (run / "videos" / "episode_1.mp4").write_bytes(b"\0" * 1000)
    (run / "videos" / "episode_2.mp4").write_bytes(b"\0" * 2_000_000)
    report(capsys, "film")
    page = read(tmp_path / "report.html")
    (film,) = (attributes for tag, attributes in page.tags if tag == "video")
    assert film["src"] == "data:video/mp4;base64," + "A" * 1334 + "=="
    assert "episode_1.mp4" in page.words["figcaption"] and "episode_2.mp4" in page.words["p"]


def test_report_of_many_films_stays_below_its_size(results, capsys, tmp_path):
    for number in range(10, 15):
        run = write_run(results, number, [row(1), row(2)], experiment="films")
        (run / "videos").mkdir()
        (run / "videos" / "a.mp4").write_bytes(b"\0" * 1_400_000)
    report(capsys, "films")
    page = read(tmp_path / "report.html")
    assert sum(tag == "video" for tag, _ in page.tags) == 2
    assert page.words["p"].count("left out for size") == 3


@pytest.mark.parametrize(
    "words, line",
    [
        (["sac", "-o", "a.pdf"], "-o a.pdf: a report is an .html file, such as -o a.html."),
        (["sac", "-o", "no/a.html"], "Make its folder: mkdir -p no"),
        (["empty"], "none of these runs has a result yet"),
        (["sca"], "sca"),
    ],
)
def test_wrong_words_are_refused_with_a_line(results, capsys, tmp_path, words, line):
    write_run(results, 9, experiment="empty")
    shown = report(capsys, *words, code=2)
    assert line in shown.err and "Traceback" not in shown.err
    assert list(tmp_path.glob("**/*.html")) == []
