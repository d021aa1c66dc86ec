"""Contract suites that every provider and every task passes, also those of third parties."""

from layton_batch.testing.providers import ProviderContract

__all__ = ["ProviderContract"]
