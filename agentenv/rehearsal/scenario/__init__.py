"""The scenario of a rehearsal: up, again, drift, mend, destroy; and what is checked at each step."""
