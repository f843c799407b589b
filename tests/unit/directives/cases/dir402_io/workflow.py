#__internal_workflows{"workflows":{"input.py":{"w":{"workflowId":"workflow//input.py//w"}}},"steps":{"input.py":{"fine":{"stepId":"step//input.py//fine"}}}}
from tenuto.model import compiled as __tenuto__
__tenuto__.share(globals())

@__tenuto__.workflow('workflow//input.py//w')
async def w(url):
    open('x')
    os.environ['A']
    environ.get('A')
    secrets.token_hex()
    time.sleep(1)
    Path('x').read_text()
    urlopen(url)
    os.listdir('.')
    helper()
    return time.time()

@__tenuto__.remote_step('step//input.py//fine')
async def fine():
    ...
