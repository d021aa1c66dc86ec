"""Answerers in the models' place: recorded answers, or simulated ones of made-up models."""
