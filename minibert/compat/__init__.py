"""Compatibility: the names, keywords and protocols by which the tools around a model know it.

One file for each class that inherits from it or asks it. Nothing here computes a number of BERT.
"""
