"""The report: what is filed of a certificate or a ledger, as HTML, JSON or Markdown."""

from skparisk.report._report import Check, Policy, Report

__all__ = ["Check", "Policy", "Report"]
