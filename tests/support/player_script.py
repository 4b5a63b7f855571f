"""Scripts that look to the solver like those of YouTube's player, of any length, honest and hostile."""

_SOLVES = """
g.U=function(u){this.p={}};
g.U.prototype.set=function(k,v){this.p[k]=v};
g.U.prototype.get=function(k){return this.p[k]};
g.U.prototype.mm=function(){if(this.p.n)this.p.n=this.p.n.split("").reverse().join("")+"MARK"};
g.make=function(a,b,c){var x=new g.U(a);x.set("alr","yes");
  if(c)x.set(b,encodeURIComponent(decodeURIComponent(c).split("").reverse().join("")));return x};
"""
_FILLS = """
g.fNUMBER=function(a,b){for(var c=0;c<a;c++){b=b*NUMBER+c;if(b>1E3&&!g.q[c])b-=a[c]?1:g.fNUMBER(c,b)}
return{k:b,l:[a,b,NUMBER],m:"xNUMBER"}};
"""


def player_script(length: int = 0, *, mark: str = "", runs: str = "") -> str:
    """Reverses what it is asked to solve, and adds `mark` to what is no signature. `runs` is done when it is run."""
    count = length // len(_FILLS)
    fill = "".join(_FILLS.replace("NUMBER", f"{number:06}") for number in range(100_000, 100_000 + count))
    done = f"g.done=(function(){{{runs}}})();"
    return (
        f"var _yt_player={{}};(function(g){{var window=this;{_SOLVES.replace('MARK', mark)}{fill}{done}}})(_yt_player);"
    )
