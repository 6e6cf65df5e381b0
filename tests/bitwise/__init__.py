"""The proof that a redesign moves no number: `compare.py` runs the same cases on two trees and compares bit by bit."""
