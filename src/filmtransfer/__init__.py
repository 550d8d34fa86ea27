"""filmtransfer"""
