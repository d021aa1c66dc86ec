"""Forms of others, one file each, both ways: per-item scores that other programs wrote, answers and verdicts that were
given elsewhere, and a run as tables, Every Eval Ever and Hugging Face's evaluation results."""
