"""A run in the forms that others read: tables, Every Eval Ever, Hugging Face's evaluation results."""
