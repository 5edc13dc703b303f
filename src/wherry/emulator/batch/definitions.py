"""Operations of job definitions.

Revisions of a name count up and are never given again, deregistered or not. A deregistered
revision is shown as INACTIVE for 180 days, and then forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable

from wherry.emulator.batch import arns, definition_defaults, definition_rules, limits
from wherry.emulator.batch.catalog import Catalog
from wherry.emulator.batch.errors import ClientError, refuse
from wherry.emulator.batch.paging import answer
from wherry.emulator.batch.ports import Document
from wherry.emulator.batch.records import JobDefinition

STATUSES = ("ACTIVE", "INACTIVE")
_NOT_IN_DOCUMENT = frozenset(("jobDefinitionName", "tags"))
_REVISION_DIGITS = 12


def register(catalog: Catalog, request: Document) -> Document:
    """RegisterJobDefinition."""
    name = request["jobDefinitionName"]
    limits.check_name("Job definition", name)
    limits.check_tags(request.get("tags", {}))
    limits.check_definition_size(request)
    document = document_of(request)
    definition_rules.check(document)
    revision = catalog.next_revision(name)
    arn = f"{catalog.arn(arns.DEFINITION, name)}:{revision}"
    tags = dict(request.get("tags", {}))
    catalog.keep(JobDefinition(name, revision, arn, document, tags=tags))
    return {"jobDefinitionName": name, "jobDefinitionArn": arn, "revision": revision}


def document_of(request: Document) -> Document:
    """Return what is kept of a request: completed as AWS completes it, without name and tags."""
    given = {member: value for member, value in request.items() if member not in _NOT_IN_DOCUMENT}
    return definition_defaults.completed(given)


def deregister(catalog: Catalog, request: Document) -> Document:
    """DeregisterJobDefinition. Once more for one that is INACTIVE changes nothing.

    A bare name is refused: the API wants ``name:revision`` or an ARN.
    """
    ref = request["jobDefinition"]
    refuse(
        ":" not in arns.name_of(ref),
        f"Job definition {ref} should be a name and revision (name:revision) or an ARN",
    )
    found = catalog.find_definition(ref)
    if found is None:
        raise ClientError(f"JobDefinition {ref} does not exist")
    if found.status == "ACTIVE":
        found.status, found.deregistered_at = "INACTIVE", catalog.clock.now()
        catalog.keep(found)
    return {}


def describe(catalog: Catalog, request: Document) -> Document:
    """DescribeJobDefinitions: names in order, the newest revision of each first."""
    refs = request.get("jobDefinitions", [])
    others = [
        member for member in ("jobDefinitionName", "status", "maxResults") if member in request
    ]
    refuse(
        bool(refs) and bool(others),
        f"JobDefinitions and {', '.join(_capital(each) for each in others)} cannot both be set",
    )
    if refs:
        limits.check_count("job definitions", refs, limits.DESCRIBED)
        return {"jobDefinitions": [shown(each) for each in _named(catalog, refs)]}
    status = request.get("status")
    refuse(
        status is not None and status not in STATUSES,
        f"Job definition status can only be one of [{', '.join(STATUSES)}]",
    )
    all_of_it = catalog.definitions(request.get("jobDefinitionName"))
    wanted = (each for each in all_of_it if status in (None, each.status))
    return answer("jobDefinitions", wanted, _place, shown, request)


def shown(definition: JobDefinition) -> Document:
    """Return a definition as DescribeJobDefinitions shows it."""
    return {
        "jobDefinitionName": definition.name,
        "jobDefinitionArn": definition.arn,
        "revision": definition.revision,
        "status": definition.status,
        "tags": dict(definition.tags),
        **definition.document,
    }


def _named(catalog: Catalog, refs: list[str]) -> Iterable[JobDefinition]:
    """Return those of a list that exist.

    A name without a revision finds nothing, although the reference once said otherwise:
    github.com/boto/boto3/issues/2908.
    """
    exact = (ref for ref in refs if ":" in arns.name_of(ref))
    found = (catalog.find_definition(ref) for ref in exact)
    return {each.arn: each for each in found if each}.values()


def _place(definition: JobDefinition) -> str:
    """Return what orders definitions by name and, within a name, the newest first."""
    newest_first = 10**_REVISION_DIGITS - definition.revision
    return f"{definition.name}\0{newest_first:0{_REVISION_DIGITS + 1}}"


def _capital(member: str) -> str:
    return member[0].upper() + member[1:]
