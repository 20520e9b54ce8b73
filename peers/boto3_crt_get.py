"""AWS's C transfer client (CRT) as a contender, through boto3. Usage: boto3_crt_get.py ENDPOINT KEY FILE"""

import sys

import boto3
from boto3.s3.transfer import TransferConfig

endpoint, key, path = sys.argv[1:]
client = boto3.client("s3", endpoint_url=endpoint)
client.download_file("bench", key, path, Config=TransferConfig(preferred_transfer_client="crt"))
