"""Reports: a certificate or a ledger as HTML, JSON or Markdown, for filing."""

from skparisk.report._report import Check, Policy, Report

__all__ = ["Check", "Policy", "Report"]
