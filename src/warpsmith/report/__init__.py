"""Tables, plots and pages made of contracts. Where files go is the caller's to say."""
