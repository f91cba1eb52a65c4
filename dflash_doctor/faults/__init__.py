"""Defects put into a healthy pair on purpose: the doctor's own test. Each states the causes to be named."""
