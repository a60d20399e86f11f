"""`minibert finetune`: a checkpoint and files of examples in, a model for one task out.

    minibert finetune classification --train a.tsv --dev b.tsv --text-column sentence -o out/labels
    minibert finetune regression --train a.tsv --pair-column other --label-column score ...
    minibert finetune tokens --train train.conll --dev dev.conll ...
    minibert finetune answers --train train.json --dev dev.json --max-length 384 ...
    minibert finetune pairs --train a.tsv --text-column question --pair-column answer ...
    minibert finetune triplets ... --negative-column wrong
    minibert finetune scores ... --label-column score --max-score 5
    torchrun --nproc-per-node 8 -m minibert finetune ...  # eight processes share each batch

Each task is a subcommand with the options that have an effect on it. Its entry of `TASKS`, at the
end, is all that the command knows of it. Tables are tsv, csv or jsonl with named columns.
`--columns` names them for a file without a header line. The output folder is the best model of the
run.
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minibert.cli.loading import source_of
from minibert.cli.options import (
    add_common,
    add_fields,
    add_model,
    add_options,
    add_table,
    filled,
    refuse_options,
    table_of,
)
from minibert.cli.parser import Once, Parser
from minibert.cli.results import UsageError, report, usage_of
from minibert.cli.texts import check_files
from minibert.cli.training import (
    add_run_options,
    add_training_options,
    keep_options,
    read_run,
    training_command,
)
from minibert.tasks.options import (
    AnswerOptions,
    LabelOptions,
    ScoreOptions,
    SimilarityOptions,
    TagOptions,
    TaskOptions,
)
from minibert.text.table import Table
from minibert.training.options import TrainingOptions
from minibert.util.progress import place

if TYPE_CHECKING:
    from minibert.tasks.task import Task


@dataclass(frozen=True)
class FinetuningTask:
    """A task of the command.

    Attributes:
        summary: What the model learns: "Learn ...", of which the model card makes "A BERT that
            predicts ...".
        kind: What the model is, as `minibert.load` calls it.
        task_class: Module and class in `minibert.tasks`. Its fields are options, too.
        add_data: Adds the options of what the task reads to a group.
        options: The class of the task's own options, in `minibert.tasks.options`.
        needed: Options that a run cannot do without, besides --train.
    """

    summary: str
    kind: str
    task_class: str
    add_data: Callable[[Any], None]
    options: type[TaskOptions] = TaskOptions
    needed: tuple[str, ...] = ()

    def fields(self, options: argparse.Namespace) -> dict[str, Any]:
        """What the options say of the task, by the fields of its class.

        Raises:
            UsageError: A value that does not exist.
        """
        table = table_of(options)
        more = {**vars(filled(self.options, options)), "table": table}
        if "dev_text_column" in options:  # a table, of which --dev may name other columns
            more["dev_table"] = dataclasses.replace(
                table,
                text=options.dev_text_column or table.text,
                pair=options.dev_pair_column or table.pair,
                label=options.dev_label_column or table.label,
            )
        if "negative_columns" in options:
            more["negatives"] = list(dict.fromkeys(options.negative_columns))
        if getattr(options, "label_columns", None):
            more |= {"multi_label": True, "label_columns": options.label_columns}
        if "regression" in options:
            more["regression"] = options.regression
        return more

    def load_class(self) -> type[Task]:
        """Import the class of the task."""
        module, _, name = self.task_class.partition(".")
        task_class: type[Task] = getattr(import_module(f"minibert.tasks.{module}"), name)
        return task_class


def add(parser: Parser) -> None:
    tasks = parser.add_subparsers(
        dest="task",
        metavar="TASK",
        title="tasks",
        required=True,
        description="minibert finetune TASK --help lists the options of a task.\n"
        "minibert finetune --resume --output DIR resumes a run.",
        parser_class=Parser,
    )
    for task, entry in TASKS.items():
        options = tasks.add_parser(task, help=entry.summary, description=entry.summary)
        _add_data_options(options, entry)
        add_model(options)
        add_fields(options.add_argument_group("task"), entry.options)
        add_training_options(options, TrainingOptions)
        add_run_options(options)
        add_common(options)
    parser.commands = dict(tasks.choices)


def _add_data_options(parser: Parser, entry: FinetuningTask) -> None:
    """Files of examples, and what the task reads of them."""
    group = parser.add_argument_group("data")
    group.add_argument("--train", action=Once, metavar="FILE", help="Training file.")
    group.add_argument(
        "--dev",
        action=Once,
        metavar="FILE",
        help="Evaluation file, which chooses the best model. Default: a share of --train is held "
        "out.",
    )
    group.add_argument(
        "--test", action=Once, metavar="FILE", help="File to score the best model on at the end."
    )
    group.add_argument(
        "--held-out",
        type=float,
        default=0.1,
        metavar="PROB",
        help="Share of --train that is held out without --dev. With labels, of each alike. "
        "0: train on everything, without a score.",
    )
    group.add_argument(
        "--max-length",
        type=int,
        default=128,
        metavar="N",
        help="Maximum number of tokens per example.",
    )
    add_options(group, "--skip-bad-rows")
    entry.add_data(group)


def _add_encoding(group: Any) -> None:
    """The option of a file whose format is the task's own."""
    add_fields(group, Table, "encoding")


def _add_columns(group: Any, labeled: bool = True) -> None:
    """The columns of a table, and those of --dev and --test where they have other names."""
    if labeled:
        add_table(group, "pair", "label")
        group.set_defaults(label_column="label")
        about_label = "Column of the label in --dev and --test. Default: as in --train."
    else:
        add_table(group, "pair")
        about_label = "Column of the score, if only --dev has scores."
    for name, what in (("text", "text"), ("pair", "second text")):
        group.add_argument(
            f"--dev-{name}-column",
            metavar="NAME",
            help=f"Column of the {what} in --dev and --test. Default: as in --train.",
        )
    group.add_argument("--dev-label-column", metavar="NAME", help=about_label)


def _add_classes(group: Any) -> None:
    _add_columns(group)
    add_options(group, "--label-columns")


def _add_numbers(group: Any) -> None:
    _add_columns(group)
    group.set_defaults(regression=True)


def _add_pairs(group: Any) -> None:
    _add_columns(group, labeled=False)


def _add_triplets(group: Any) -> None:
    _add_pairs(group)
    add_options(group, "--negative-column")


def with_task_of_run(arguments: list[str]) -> list[str]:
    """The arguments of a run that is resumed, with the task in front that its folder names.

    Raises:
        UsageError: The folder holds no run, or a new run names options before its task.
    """
    first = arguments[0] if arguments else ""
    resumes = any(argument.startswith("--resume") for argument in arguments)
    if not resumes and first.startswith("-") and first not in ("-h", "--help"):
        raise UsageError(f"name a task before its options: minibert finetune TASK {first}")
    if not resumes or first in TASKS:
        return arguments
    folders = Parser(prog="minibert finetune", add_help=False)
    add_options(folders, "--output")
    output = folders.parse_known_args(arguments)[0].output
    if output is None:
        return arguments
    command, _, task = read_run(Path(output)).get("command", "").partition(" ")
    if not task:
        raise UsageError(
            f"{output} holds no run to resume: start one by minibert finetune TASK --train FILE "
            f"--output {output}"
        )
    return [task, *arguments]


def _needed(options: argparse.Namespace) -> tuple[str, ...]:
    return ("train", *TASKS[options.task].needed)


def _check(options: argparse.Namespace) -> None:
    """Refuse options that have no effect on the rows that there are."""
    if options.dev is not None:
        refuse_options(options, ["held_out"], "has no effect with --dev: drop one of them.")
    elif options.test is None:
        columns = [f"dev_{name}_column" for name in ("text", "pair", "label")]
        refuse_options(options, columns, "has no effect without --dev or --test: drop it.")


@training_command(
    "classification --train train.tsv --dev dev.tsv --output out/labels", add, _needed, _check
)
def finetune(options: argparse.Namespace) -> None:
    """Fine-tune: classify, score, tag, answer, or make vectors similar."""
    # what is decided before anything slow is imported or read
    entry = TASKS[options.task]
    fields = entry.fields(options)
    settings = filled(TrainingOptions, options)
    check_files((options.train, options.dev, options.test), folders=False)
    source = source_of(options)
    # what training does with it
    task = entry.load_class()(**fields)
    from minibert.training.finetuning import finetune

    learned: set[tuple[str, ...]] = set()
    if options.dev is None and options.held_out:
        learned = _learned_texts(str(options.model))
    with keep_options(options) as folder:
        scores = finetune(
            task,
            source,
            options.train,
            options.dev,
            folder,
            settings,
            test=options.test,
            held_out=options.held_out,
            skip_bad_rows=options.skip_bad_rows,
            max_length=options.max_length,
            learned=learned,
            resume=options.resume,
        )
    # what is reported, by the first process for all
    if place().rank > 0:
        return
    from minibert.training.card import write_card

    usage = usage_of(entry.kind, options.output, scores.config)
    write_card(
        options.output,
        entry.summary.removesuffix(".").replace("Learn", "A BERT that predicts"),
        {"base": options.model, "train": options.train, "dev": options.dev, "test": options.test},
        {"max_length": scores.max_length, **vars(scores.options)},
        scores,
        usage,
    )
    measured = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
    sentence = f"The best model is in {options.output}: {measured}.\nUse it: {usage}"
    if options.dev is None and options.held_out == 0:
        about = f"It was not scored, but on --test: {measured}" if scores else "It has no score"
        sentence = f"The model of the last step is in {options.output}. {about}.\nUse it: {usage}"
    report(options, {"output": options.output, **scores}, sentence)


def _learned_texts(model: str) -> set[tuple[str, ...]]:
    """The texts that a model and the models before it were fine-tuned on, as far as folders know.

    A run whose training file is gone or has changed ends the chain: the model that it began with
    may be another one by now as well.
    """
    from minibert.training.finetuning import learned_texts

    texts: set[tuple[str, ...]] = set()
    models: set[str] = set()
    while model not in models:
        models.add(model)
        # an AttributeError: an older version has kept fewer options
        with suppress(AttributeError, OSError, ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an earlier run, which has shown them
            run = read_run(Path(model))
            command, _, name = run.get("command", "").partition(" ")
            if command != "finetune" or name not in TASKS:
                break
            options = argparse.Namespace(**run["options"])
            if not Path(options.train).is_file():  # gone, or a stream that is read only once
                break
            new_texts = learned_texts(
                TASKS[name].load_class()(**TASKS[name].fields(options)),
                model,
                options.train,
                held_out=options.held_out if options.dev is None else 0,
                seed=options.seed,
                skip_bad_rows=options.skip_bad_rows,
                max_length=options.max_length,
            )
            if new_texts:
                texts |= new_texts
                model = str(options.model)
    return texts


TASKS: dict[str, FinetuningTask] = {
    "classification": FinetuningTask(
        "Learn the label of a text or of a pair of texts.",
        "classifier",
        "sequence.SequenceTask",
        _add_classes,
        LabelOptions,
    ),
    "regression": FinetuningTask(
        "Learn a number for a text or for a pair of texts.",
        "classifier",
        "sequence.SequenceTask",
        _add_numbers,
    ),
    "tokens": FinetuningTask(
        "Learn a tag for each word (CoNLL files), such as the names in a text.",
        "tagger",
        "tokens.TokenTask",
        _add_encoding,
        TagOptions,
    ),
    "answers": FinetuningTask(
        "Learn where in a text the answer to a question is (SQuAD files).",
        "answers",
        "answers.AnswerTask",
        _add_encoding,
        AnswerOptions,
    ),
    "reranker": FinetuningTask(
        "Learn how well a document answers a query, to rank what a search has found.",
        "reranker",
        "reranking.RerankTask",
        _add_columns,
        needed=("pair_column",),
    ),
    "pairs": FinetuningTask(
        "Make the vectors of two texts that belong together similar.",
        "embedder",
        "similarity.SimilarityTask",
        _add_pairs,
        SimilarityOptions,
        needed=("pair_column",),
    ),
    "triplets": FinetuningTask(
        "As pairs, with hard negatives: texts that do not belong to the first.",
        "embedder",
        "similarity.SimilarityTask",
        _add_triplets,
        SimilarityOptions,
        needed=("pair_column", "negative_columns"),
    ),
    "scores": FinetuningTask(
        "Make the similarity of two texts what a score says.",
        "embedder",
        "similarity.SimilarityTask",
        _add_columns,
        ScoreOptions,
        needed=("pair_column",),
    ),
}
