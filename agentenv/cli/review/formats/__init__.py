"""Write a review as Markdown, on a terminal, and as SARIF."""
