"""`attnsuite draw`: draw the documents' figures with measured numbers, as SVG and PNG files."""

from attnsuite.cli.options import words
from attnsuite.cli.requests import Draw
from attnsuite.cli.targets import print_hint
from attnsuite.documents.figures import FIGURES, select_figures
from attnsuite.model import UsageError
from attnsuite.report.charts import missing_packages

OPTIONS = {"sentence": "sentence", "attention": "attention", "causal": "causal", "from": "checkpoint"}
"""The options of figures, and the arguments of pictures."""


def run(options: Draw) -> None:
    """Draw these figures into the folder, all of them where none is named; print the paths of their files.

    Raises UsageError for an unknown figure, an option that a figure does not take, a library that is absent, and a file
    that is not to be replaced.
    """
    figures = select_figures(options.figures)
    if options.list_figures:
        for name in figures:
            figure = FIGURES[name]
            takes = f" ({', '.join(f'--{option}' for option in figure.takes)})" if figure.takes else ""
            print(f"{name:{max(map(len, figures))}}  {figure.title}: {figure.source}{takes}")
        return
    given = [option for option, argument in OPTIONS.items() if words(options, argument)]
    for option in given:
        _refuse_untaken(option, options.figures)
    if lacking := missing_packages():
        raise UsageError(f'drawing needs {" and ".join(lacking)}: python -m pip install "attnsuite[charts]"')
    from attnsuite.documents.figures.drawing import targets  # needs these libraries

    trained: set[str] = set()
    for target in targets(options.to, figures, options.overwrite):
        figure = FIGURES[target.name]
        if figure.trains not in trained | {""} and "from" not in given:
            trained.add(figure.trains)
            print_hint(
                f"loading the {figure.trains} that translates; without a cached one it is trained, which takes a minute"
            )
        picture = figure.picture(**{OPTIONS[option]: getattr(options, OPTIONS[option]) for option in given})
        for path in target.write(picture):
            print(path, flush=True)


def _refuse_untaken(option: str, named: tuple[str, ...]) -> None:
    takers = [name for name in FIGURES if option in FIGURES[name].takes]
    others = [name for name in select_figures(named) if name not in takers]
    if not named:
        raise UsageError(f"--{option} needs the name of a figure; figures that take it: {', '.join(takers)}")
    if others:
        raise UsageError(f"{others[0]} takes no --{option}; figures that take it: {', '.join(takers)}")
