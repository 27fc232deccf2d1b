"""Scenes that hold the types of requests and reports against the published schemas."""

from __future__ import annotations

import json
import typing
import unittest
from typing import Any, Optional, Union

from scene import PROJECT
from terminal_orchestrator import report, request

SCHEMAS = PROJECT.parent / "spec" / "schemas"
OURS = {("ExecutionReport.status", "dry_run"), ("AssignmentsReport.status", "dry_run")}
"""Words that this package adds."""


class Judge:
    """Compares a type with a schema, and lists where they differ."""

    def __init__(self, *, is_request: bool) -> None:
        self.is_request = is_request
        self.wrong: list[str] = []

    def compare(self, hint: Any, schema: dict[str, Any], place: str) -> None:
        kinds = _kinds(hint)
        if hint is Any or not _forms(schema):
            return
        for form in _forms(schema):
            self.compare_form(kinds, form, place)
        may_be_none = any(form.get("type") == "null" for form in _forms(schema))
        if (type(None) in kinds) != may_be_none:
            self.wrong.append(f"{place}: None is {'' if may_be_none else 'not '}among what the schema allows")

    def compare_form(self, kinds: list[Any], form: dict[str, Any], place: str) -> None:
        kind = form.get("type")
        if "enum" in form:
            words = {word for one in kinds for word in typing.get_args(one)}
            missing = set(form["enum"]) ^ words - {word for at, word in OURS if at == place}
            self.expect(not missing, f"{place}: {sorted(missing)} differ")
        elif kind == "object":
            self.compare_object(kinds, form, place)
        elif kind == "array":
            items = [typing.get_args(one)[0] for one in kinds if typing.get_origin(one) is list]
            self.expect(bool(items), f"{place}: a list is allowed")
            for item in items:
                self.compare(item, form.get("items", {}), f"{place}[]")
        elif kind is not None and kind != "null":
            plain = {"string": str, "boolean": bool, "integer": int, "number": float}[kind]
            self.expect(plain in kinds, f"{place}: {plain.__name__} is allowed")

    def compare_object(self, kinds: list[Any], form: dict[str, Any], place: str) -> None:
        if "properties" not in form:
            values = [typing.get_args(one)[1] for one in kinds if typing.get_origin(one) is dict]
            self.expect(bool(values), f"{place}: a dict is allowed")
            inner = form.get("additionalProperties")
            if isinstance(inner, dict):
                for value in values:
                    self.compare(value, inner, f"{place}{{}}")
            return
        typed = [one for one in kinds if typing.is_typeddict(one)] if hasattr(typing, "is_typeddict") else []
        self.expect(len(typed) == 1, f"{place}: a TypedDict describes it")
        for one in typed:
            hints = typing.get_type_hints(one)
            names = set(form["properties"])
            self.expect(names <= set(hints), f"{place}: {sorted(names - set(hints))} are not described")
            if self.is_request:
                self.expect(set(hints) <= names, f"{place}: {sorted(set(hints) - names)} are unknown")
                required = set(form.get("required", []))
                self.expect(one.__required_keys__ == required, f"{place}: {sorted(required)} are required")
            for name in names & set(hints):
                at = f"{one.__name__}.{name}" if name == "status" else f"{place}.{name}"
                self.compare(hints[name], form["properties"][name], at)

    def expect(self, holds: bool, words: str) -> None:
        if not holds:
            self.wrong.append(words)


def _kinds(hint: Any) -> list[Any]:
    return list(typing.get_args(hint)) if typing.get_origin(hint) is Union else [hint]


def _forms(schema: dict[str, Any]) -> list[dict[str, Any]]:
    forms: Optional[list[dict[str, Any]]] = schema.get("anyOf")
    return forms if forms is not None else [schema] if "type" in schema or "enum" in schema else []


@unittest.skipUnless(SCHEMAS.is_dir(), "the schemas are in the checkout alone")
@unittest.skipUnless(hasattr(typing, "is_typeddict"), "Python 3.9 cannot tell a TypedDict")
class Types(unittest.TestCase):
    """What a type checker believes is what `wk` takes and gives."""

    def judge(self, hint: Any, schema: str, *, is_request: bool) -> None:
        judge = Judge(is_request=is_request)
        judge.compare(hint, json.loads((SCHEMAS / f"{schema}.schema.json").read_text()), hint.__name__)
        self.assertEqual(judge.wrong, [])

    def test_requests_are_described_as_wk_takes_them(self) -> None:
        self.judge(request.ExecutionRequest, "execution-request", is_request=True)
        self.judge(request.Assignments, "assignments", is_request=True)

    def test_reports_are_described_as_wk_gives_them(self) -> None:
        self.judge(report.ExecutionReport, "execution-report", is_request=False)
        self.judge(report.AssignmentsReport, "assignments-report", is_request=False)


if __name__ == "__main__":
    unittest.main()
