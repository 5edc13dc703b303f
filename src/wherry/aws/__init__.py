"""Amazon Web Services: sessions, calls, facts and tables; nothing here runs apps."""
