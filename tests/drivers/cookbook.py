"""The pages of docs/cookbook: recipes are read from them, held against what the server gives, and written anew with `UPDATE=1`.

A recipe is a heading, a request and two blocks that are written anew: the first results, and the plan that explain prints.
"""

import os
import pathlib
import re

from bson import json_util

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "cookbook"
RECIPE = re.compile(
    r"^## (?P<title>[^\n]+)\n(?:(?!^## ).)*?```json (?P<kind>\w+) (?P<collection>\w+)\n(?P<request>.*?)```\n(?:(?!^## ).)*?"
    r"```json results\n(?P<results>.*?)```\n(?:(?!^## ).)*?```text explain\n(?P<explain>.*?)```", re.S | re.M)
SHOWN = 3


def recipes(page):
    return {match["title"]: match for match in RECIPE.finditer(page.read_text(encoding="utf-8"))}


def headings(page):
    return re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.M)


def parsed(recipe):
    return json_util.loads(recipe["request"], json_options=json_util.JSONOptions(tz_aware=False))


def stage_name(stage):
    """The name of a plan's stage, with that of its index."""
    return " ".join(stage[part] for part in ("stage", "indexName") if part in stage)


def plan_names(plan):
    """The stages of a plan, the one that reads first."""
    inputs = plan_names(plan["inputStage"]) if "inputStage" in plan else []
    return [*inputs, stage_name(plan)]


def stage_names(explained):
    """The pipeline's stages, and in front of them the plan of the find that is its head."""
    if "stages" not in explained:
        return plan_names(explained["queryPlanner"]["winningPlan"])
    names = []
    for stage in explained["stages"]:
        name = next(iter(stage))
        names += plan_names(stage[name]["queryPlanner"]["winningPlan"]) if name == "$cursor" else [name]
    return names


def plan_line(plan):
    """The stages of a plan from the top to what reads."""
    name = stage_name(plan)
    inputs = [plan_line(branch) for branch in [*plan.get("inputStages", []), *([plan["inputStage"]] if "inputStage" in plan else [])]]
    if len(inputs) < 2:
        return " <- ".join([name, *inputs])
    return f"{name} <- ({', '.join(inputs)})"


def written(documents):
    """Documents as lines of JSON."""
    options = json_util.RELAXED_JSON_OPTIONS
    return "".join(json_util.dumps(document, json_options=options, ensure_ascii=False) + "\n" for document in documents)


def settle(page, section, blocks):
    """Holds the blocks of a section, by their names, against what they have to be, or writes them."""
    new = section
    for name, content in blocks.items():
        assert f"```{name}\n" in section
        new = re.sub(rf"(?<=```{name}\n).*?(?=^```)", lambda _, content=content: content, new, count=1, flags=re.S | re.M)
    if os.environ.get("UPDATE"):
        page.write_text(page.read_text(encoding="utf-8").replace(section, new), encoding="utf-8")
        return
    assert section == new


def settle_recipe(page, recipe, results, plan):
    settle(page, recipe[0], {"json results": written(results[:SHOWN]), "text explain": plan + "\n"})
