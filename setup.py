from setuptools import find_packages, setup

# Every folder of drl_cli with an __init__.py, and the tuned files, which stand beside it and travel inside it.
setup(packages=[*find_packages(include=["drl_cli", "drl_cli.*"]), "drl_cli.tuned_examples"])
