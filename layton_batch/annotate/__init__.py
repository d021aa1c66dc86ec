"""The labelling app: one answer at a time, without the model's name and without the jury's word."""
