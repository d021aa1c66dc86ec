"""The providers' own statements on a manifest's models, before anything is paid: free calls, a few seconds at most.

As with the table of models, a refusal is of what is sure to fail, and at another address than the provider's own it is
a warning. A question that fails says nothing of the model and refuses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date

from layton_batch import model_table
from layton_batch.clock import Clock, utc
from layton_batch.errors import LaytonBatchError, ManifestError, ProviderError
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import ModelFinding, ModelFindings, asked_models, sent_all_the_same, who
from layton_batch.model_table import KnownModels, is_same_model
from layton_batch.providers import closing, knows_models
from layton_batch.providers.protocol import Access, CallLimits, ModelNotice
from layton_batch.providers.wire_errors import concerns_account
from layton_batch.providers.without_keys import without_keys
from layton_batch.runs.connections import connect_within
from layton_batch.settings import Settings

SECONDS = 5.0
"""For one call."""
PATIENCE = CallLimits(SECONDS)


@dataclass(frozen=True, slots=True)
class _ModelNotices:
    """Statements of a provider about its models by id (None: it has no such model), and why it said no more.
    ``refuses_account``: it is a wrong key, or the account's trouble."""

    notices: dict[str, ModelNotice | None]
    trouble: str | None = None
    refuses_account: bool = False


def ask_providers(
    manifest: Manifest,
    settings: Settings,
    clock: Clock,
    *,
    table: KnownModels | None = None,
    is_elsewhere: Callable[[str], bool] | None = None,
) -> ModelFindings:
    """Ask the providers about the manifest's models and judges: each is asked about once, the providers at the
    same time.

    ``table`` names replacements; ``is_elsewhere``: whether a provider's address is another than its own (None: as the
    environment says). Providers that cannot be asked, or only with a key that is not set, are passed over.
    """
    table, today, settings = table or model_table.load(), utc(clock.now()).date(), manifest.addressed(settings)
    names: dict[str, dict[str, list[str]]] = {}
    for spec in asked_models(manifest):
        troubles = settings.key_trouble(spec.provider), settings.address_trouble(spec.provider)
        if not settings.has_key(spec.provider) or any(troubles):
            continue  # what has no key or no address cannot be asked, and its lack is told elsewhere
        names.setdefault(spec.provider, {}).setdefault(spec.model, []).append(spec.name)
    with ThreadPoolExecutor(max(len(names), 1)) as executor:
        replies = executor.map(lambda provider: _ask(manifest, provider, list(names[provider]), settings), names)
        answers = dict(zip(names, replies, strict=True))
    refused: list[str] = []
    warnings: list[str] = []
    for provider, answer in answers.items():
        if answer.refuses_account:
            trouble = (answer.trouble or "").rstrip(".")
            line = f"{provider} does not serve the account: {trouble}. If it does all the same: --offline does not ask"
            (warnings if (is_elsewhere or settings.is_elsewhere)(provider) else refused).append(line)
        for model, notice in answer.notices.items():
            for statement in _against(provider, model, notice, table, today):
                line = f"{who(provider, model, names[provider][model])} {statement.reason}"
                if statement.fails and not (is_elsewhere or settings.is_elsewhere)(provider):
                    refused.append(f"{line}. If it is right all the same: --offline does not ask")
                else:
                    warnings.append(f"{line}{f'; {sent_all_the_same(provider, settings)}' if statement.fails else ''}")
    return ModelFindings(tuple(refused), (*warnings, *_of_trouble(answers)))


def refuse_dead_models(manifest: Manifest, settings: Settings, clock: Clock) -> tuple[str, ...]:
    """Return what a person should know of the models before a run begins.

    Raises ManifestError for a model that its provider no longer has, or has another model under its name, and for a key
    that its provider does not accept.
    """
    findings = ask_providers(manifest, settings, clock)
    if findings.refused:
        raise ManifestError("\n".join(findings.refused))
    return findings.warnings


def _ask(manifest: Manifest, provider: str, models: Sequence[str], settings: Settings) -> _ModelNotices:
    """Ask a provider about its models, one after another, until a question fails."""
    notices: dict[str, ModelNotice | None] = {}
    try:
        credentials = settings.access(provider)
        access = Access(credentials.api_key, credentials.base_url, PATIENCE)
        with closing(without_keys(connect_within(manifest, provider, access), access.api_key)) as connected:
            if (informant := knows_models(connected)) is not None:
                for model in models:
                    notices[model] = informant.about(model)
    except ProviderError as error:
        refuses_account = concerns_account(error.status, error.code, str(error))
        return _ModelNotices(notices, str(error), refuses_account)
    except LaytonBatchError as error:
        return _ModelNotices(notices, str(error))
    return _ModelNotices(notices)


def _against(
    provider: str, model: str, notice: ModelNotice | None, table: KnownModels, today: date
) -> Iterator[ModelFinding]:
    model_facts = table.model(provider, model)
    replacement = model_facts.replacement if model_facts is not None else None
    instead = f": use {new}" if (new := (notice.replacement if notice else None) or replacement) else ""
    if notice is None:
        yield ModelFinding(f"is not known to {provider}, which was asked{instead or ': name another model'}")
        return
    if notice.id is not None and not is_same_model(model, notice.id):
        yield ModelFinding(f"stands for another model, {notice.id}, says {provider}: use {notice.id}, or another model")
    if notice.is_over:
        yield ModelFinding(f"is no longer served, says {provider}{instead or ': name another model'}")
    elif notice.ends is not None:
        was = "was to be" if notice.ends <= today else "will be"
        yield ModelFinding(f"{was} shut down on {notice.ends}, says {provider}{instead}", fails=False)
    elif notice.is_deprecated:
        yield ModelFinding(f"is deprecated, says {provider}{instead}", fails=False)
    if notice.runs_as_batch is False:
        yield ModelFinding(f"is not run as a batch, says {provider}: name another model, or another provider of it")


def _of_trouble(answers: dict[str, _ModelNotices]) -> Iterator[str]:
    """Describe all questions that failed in one line."""
    reasons = [
        answer.trouble for answer in answers.values() if answer.trouble is not None and not answer.refuses_account
    ]
    if reasons:
        yield f"providers could not be asked whether their models are on sale: {'; '.join(reasons)}"
