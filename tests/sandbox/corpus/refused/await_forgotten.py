# expect: error
# kind: ForgottenAwait
async def compute():
    return 42


compute()
