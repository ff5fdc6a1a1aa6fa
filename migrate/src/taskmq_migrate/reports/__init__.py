"""What a run says: text for people, JSON and SARIF for programs, a page to look at."""
