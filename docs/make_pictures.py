"""Makes the pictures of README.rst and docs/getting_started.rst. Takes some minutes on two cores: ``make pictures``.

    python docs/make_pictures.py [curves] [lander]
    python docs/make_pictures.py mujoco  # that of docs/measured.rst; 15 minutes, with drl-cli[mujoco]

``curves`` and ``mujoco`` are learning curves; ``lander`` is one run, trained here: its live screen, its summary, its line in
the list of runs, its score and its film. All come through the commands that they show. Everything is written to docs/pictures,
runs to a temporary folder.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from drl_cli import process

process.prepare()  # thread counts only count before NumPy is imported

import imageio_ffmpeg  # noqa: E402
from rich.console import Console, RenderableType  # noqa: E402
from rich.spinner import Spinner  # noqa: E402
from rich.terminal_theme import MONOKAI  # noqa: E402
from rich.text import Text  # noqa: E402

from drl_cli import events  # noqa: E402
from drl_cli.cli import main, screen  # noqa: E402
from drl_cli.cli.view import RunView  # noqa: E402

PICTURES = Path(__file__).resolve().parent / "pictures"
TRAIN = "train -f lunarlander-continuous-sac"
COLUMNS, LINES = 92, 24
MOMENT = 0.7  # of the run, when the screen is taken
CURVES = ("cartpole-ppo", "cartpole-dqn")
MUJOCO = ("halfcheetah-crossq", "walker2d-crossq", "hopper-trpo", "swimmer-ars", "inverteddoublependulum-sac")
SEEDS, STEPS = 3, 40_000
EPISODES = 5  # landings, of which the best is shown
GIF = "fps=10,scale=300:-1:flags=lanczos,split[a][b];[a]palettegen=max_colors=48[p];[b][p]paletteuse=dither=none"


def drl(*words):
    """Type ``drl`` and ``words``; a failure ends the program."""
    code = main([str(word) for word in words])
    if code:
        sys.exit(code)


class Camera:
    """Listens to a run and takes a picture of its screen every half second."""

    def __init__(self, view):
        self.view, self.taken = view, []
        self._started, self._last = time.monotonic(), 0.0

    def __call__(self, kind, fields):
        seconds = time.monotonic() - self._started
        self.view.take(kind, fields, seconds)
        if seconds - self._last > 0.5 and self.view.progress:
            self._last = seconds
            self.taken.append(self._picture(seconds))

    def _picture(self, seconds):
        return svg_of(
            lambda console: screen.picture(self.view, seconds, console, Spinner("dots", style="cyan")), f"drl {TRAIN}"
        )


class Page(io.StringIO):
    """A stream of characters that says it can carry blocks."""

    encoding = "utf-8"


def svg_of(draw: Callable[[Console], RenderableType], title: str) -> str:
    """Return what ``draw(console)`` gives, printed in a terminal with ``title``, as the text of an SVG file."""
    console = Console(
        file=Page(), record=True, width=COLUMNS, height=LINES, force_terminal=True, color_system="truecolor"
    )
    console.print(draw(console))
    return console.export_svg(title=title, theme=MONOKAI)


@contextlib.contextmanager
def stdout_in(path: Path) -> Iterator[None]:
    """Send descriptor 1 into the file ``path``, in colour and as wide as the pictures are."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.environ.update(FORCE_COLOR="1", COLUMNS=str(COLUMNS))
    with open(path, "wb") as file:
        os.dup2(file.fileno(), 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
        del os.environ["FORCE_COLOR"], os.environ["COLUMNS"]


def write_text(name: str, path: Path, command: str) -> None:
    """Write what ``command`` has printed into the file ``path`` as the picture ``name``; the home folder is shown as ~."""
    text = Text.from_ansi(path.read_text(encoding="utf-8").replace(os.environ["HOME"], "~").strip("\n"))
    svg = svg_of(lambda _: text, f"drl {command}")
    (PICTURES / f"{name}.svg").write_text(without_fonts(svg), encoding="utf-8")


def lander(folder: Path) -> Path:
    """Train the lander once and write its screen and its summary; returns its run's folder."""
    view = RunView(algorithm="SAC", env="LunarLanderContinuous-v3", goal=225)
    camera = Camera(view)
    unsubscribe = events.subscribe(camera)
    with stdout_in(folder / "summary"):
        drl(*TRAIN.split(), "--seed", 1)
    unsubscribe()
    write_screen(camera.taken)
    write_text("summary", folder / "summary", TRAIN)
    return Path(view.run_folder)


def write_answers(run: Path, folder: Path) -> None:
    """Write what ``drl runs`` lists and how ``drl evaluate`` scores the run."""
    shown = run.name.rpartition("_")[2]
    for name, words in {"runs": ("runs",), "evaluate": ("evaluate", shown, "--episodes", 50)}.items():
        with stdout_in(folder / name):
            drl(*words)
        write_text(name, folder / name, " ".join(map(str, words)))


def without_fonts(svg):
    """Leave out where the font would be fetched from, and take one that is there: a picture asks nobody for anything."""
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    return svg.replace("Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace")


def write_screen(taken):
    """Write the screen as it was at ``MOMENT``."""
    svg = without_fonts(taken[int(MOMENT * len(taken))])
    (PICTURES / "screen.svg").write_text(svg, encoding="utf-8")


def write_lander(run, folder):
    """Write the best of a few landings as an animation."""
    words = ["rollout", run, "--episodes", EPISODES, "--seed", 0, "--json", "--video-dir", folder]
    done = subprocess.run(
        [sys.executable, "-m", "drl_cli", *map(str, words)], stdout=subprocess.PIPE, text=True, check=True
    )
    rewards = [json.loads(line)["reward"] for line in done.stdout.splitlines()[:-1]]
    video = sorted(folder.glob("*.mp4"))[rewards.index(max(rewards))]
    command = [
        imageio_ffmpeg.get_ffmpeg_exe(),
        "-y",
        "-loglevel",
        "error",
        "-i",
        video,
        "-vf",
        GIF,
        PICTURES / "lander.gif",
    ]
    subprocess.run(command, check=True)


def write_curves(names, picture, *options):
    """Train the tuned files ``names`` over some seeds, with ``options`` of ``drl train``, and plot them."""
    for name in names:
        for seed in range(SEEDS):
            drl("train", "-f", name, "--seed", seed, *options, "-q")
    drl("plot", *names, "--field", "evaluation/episode_reward_mean", "-o", PICTURES / picture)


def make(wanted):
    """Make the pictures that are named in ``wanted``."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        os.environ["HOME"] = name  # runs go to ~/ray_results there
        if "curves" in wanted:
            stop = f'{{"timesteps_total": {STEPS}}}'
            write_curves(CURVES, "curves.png", "-s", "num_workers=0", "--stop", stop)
        if "mujoco" in wanted:
            write_curves(MUJOCO, "mujoco.png")
        if "lander" in wanted:
            run = lander(Path(name))
            write_answers(run, Path(name))
            write_lander(run, Path(name) / "videos")


if __name__ == "__main__":
    make(set(sys.argv[1:]) or {"curves", "lander"})
