"""The tuner: finds the roofs by measurement, then the batch and the decode threads that come near them."""
