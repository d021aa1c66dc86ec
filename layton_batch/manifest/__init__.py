"""Manifests: the form of a manifest, its checks, what is wrong with it, who sits on a jury."""
