"""What SARIF 2.1.0 says of those of its objects that we write, as a JSON schema written from the standard's text.

Stricter than the published schema: an object holds nothing but what is named here, so that a slip of a name shows. The
published one is OASIS's and not a part of this project: name a copy of it by WHYIDLE_SARIF_SCHEMA, and the tests
validate against that, too.
"""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
INDEX = {"type": "integer", "minimum": 0}
FROM_ONE = {"type": "integer", "minimum": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
BAG = {"type": "object", "properties": {"tags": {"type": "array", "items": TEXT, "uniqueItems": True}}}


def an_object(*required: str, **properties: object) -> dict[str, Any]:
    """Return the schema of an object with these properties, and no other."""
    return {
        "type": "object", "properties": properties, "required": list(required), "additionalProperties": False,
    }  # fmt: skip


def many(items: object, **more: object) -> dict[str, Any]:
    return {"type": "array", "items": items, **more}


MESSAGE = an_object("text", text=TEXT, markdown=TEXT)  # 3.11, 3.12
ARTIFACT = an_object("uri", uri={"type": "string", "format": "uri-reference"}, uriBaseId=TEXT)  # 3.4
BASE = an_object(description=MESSAGE, uri={"type": "string", "format": "uri-reference"})  # 3.14.14
REGION = an_object("startLine", startLine=FROM_ONE, startColumn=FROM_ONE, snippet=an_object(text=TEXT))  # 3.30
PLACE = an_object("artifactLocation", artifactLocation=ARTIFACT, region=REGION, contextRegion=REGION)  # 3.29
LOCATION = an_object("physicalLocation", physicalLocation=PLACE, message=MESSAGE)  # 3.28
RULE = an_object("id", id=TEXT, shortDescription=MESSAGE, help=MESSAGE, properties=BAG)  # 3.49
DRIVER = an_object("name", name=TEXT, semanticVersion=TEXT, rules=many(RULE, uniqueItems=True))  # 3.19
NOTIFICATION = an_object("message", level=LEVEL, message=MESSAGE, locations=many(LOCATION, uniqueItems=True))  # 3.58
INVOCATION = an_object(
    "executionSuccessful", executionSuccessful={"type": "boolean"}, toolExecutionNotifications=many(NOTIFICATION)
)  # 3.20
RESULT = an_object(
    "message",
    ruleId=TEXT,
    ruleIndex=INDEX,
    level=LEVEL,
    message=MESSAGE,
    locations=many(LOCATION),
    relatedLocations=many(LOCATION, uniqueItems=True),
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    properties=BAG,
)  # 3.27
RUN = an_object(
    "tool",
    tool=an_object("driver", driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    originalUriBaseIds={"type": "object", "additionalProperties": BASE},
    invocations=many(INVOCATION),
    results=many(RESULT),
)  # 3.14
LOG = an_object("version", "runs", **{"$schema": TEXT, "version": {"const": "2.1.0"}, "runs": many(RUN)})  # 3.13
