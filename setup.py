import json
import re
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.egg_info import egg_info


class DescribedInfo(egg_info):
    """The metadata of a build, with a bill of materials in CycloneDX 1.6, which wheels keep in .dist-info/sboms (PEP 770).

    It names this package and what it requires, with the versions that are allowed; nothing of others is in a wheel. It holds no
    time and no random number, so that a build can be repeated byte for byte.
    """

    def run(self) -> None:
        super().run()
        about, version = self.distribution.metadata, self.distribution.get_version()
        required = sorted(map(str, vars(self.distribution)["install_requires"]))
        parts = []
        for requirement in required:
            name = re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0].lower()
            allowed = {"name": "python:requirement", "value": requirement}
            parts.append(
                {"type": "library", "bom-ref": name, "name": name, "purl": f"pkg:pypi/{name}", "properties": [allowed]}
            )
        own = {"type": "application", "bom-ref": about.get_name(), "name": about.get_name(), "version": version}
        own |= {
            "purl": f"pkg:pypi/{about.get_name()}@{version}",
            "licenses": [{"license": {"id": about.get_license()}}],
        }
        edges = [{"ref": own["bom-ref"], "dependsOn": [part["bom-ref"] for part in parts]}]
        bill = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": own}}
        folder = Path(self.egg_info, "sboms")
        folder.mkdir(exist_ok=True)
        text = json.dumps(bill | {"components": parts, "dependencies": edges}, indent=1)
        (folder / "drl-cli.cdx.json").write_text(f"{text}\n", encoding="utf-8")


# Every folder of drl_cli with an __init__.py, and the tuned files, which stand beside it and travel inside it.
setup(
    packages=[*find_packages(include=["drl_cli", "drl_cli.*"]), "drl_cli.tuned_examples"],
    cmdclass={"egg_info": DescribedInfo},
)
