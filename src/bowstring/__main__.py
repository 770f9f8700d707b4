"""`python -m bowstring` is the command `bowstring`."""

from bowstring.cli.main import main

if __name__ == "__main__":
    main()
