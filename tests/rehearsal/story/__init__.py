"""`./kit rehearsal`: a run's whole life, bad days among it, played on one machine (docs/rehearsal.md)."""
