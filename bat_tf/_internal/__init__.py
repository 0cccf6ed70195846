"""What every room shares and no user needs to know."""
