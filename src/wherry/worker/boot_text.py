"""`boot.py` as it is sent; made by ``python -m wherry.worker.shipping``."""

from __future__ import annotations

# fmt: off
BOOT = (
    "import sys\nif sys.path[:1]==['']:del sys.path[0]\nif sys.version_info<(3,9):sys.exit("
    "'wherry: a function needs Python 3.9 or newer; this is '+sys.version)\nimport base64,"
    "zlib\nexec(zlib.decompress(base64.b85decode('c-oa%ZFAa468`RAG55hWQUbzn$>q4Bt|&}mDvs?k"
    'BzIYkQjMj-Xb}>t8DbL```fR3dh`lT?YSyJXu5m4d!Bx}hiJ7<GtE+U6w#B~s-wyGyP-e08V){>Za%Rd`zT^'
    '1kD@uNEp(3<{LQm;#q@R^C6COS=qKBwqfpM7FVxc6WO0ivqzGlET5KitA`N@|({RFFvS76qTCcqzj%1>lP>i'
    '0+Ex=41J$P%8DVeLlJGG7@k`fv`&EMdzu6ezTk`NZioOd;u+>HlmlE^?uX~G~Tp*<BW<Vvz$k8$)uaV8<)s!'
    'pk5jK)#21fyu%0sTbkI1O4%M=P0bbnonh_SV^!Ld<o%O#ZQvN;{N>7H+;4dcoc@hyRPi2fP4@Y->HEXX6d$Z'
    'j0Tdi7c||7PdvAo@53dnN1$0&ZJtWiIPq!lS#eF66TPsr?k);I1u|a1Cx$he68&;j}j5b%}|0kHTLPGgG`2y'
    'tO$_e)X(*I1xYh6P*5g6oJ6do+ig0QDi0Q;EKM)~5@Klvag#OD<^6w;{r+Gu9FP6a!|(p+lJA>xUXyH<Hpau'
    'j{cutdXsnLMquU#Qa{GCB!(GY)U<y)P$P8|8CjHUP@ZJYYm&2RMsDC~7KYqQw_P^ebxVz`}VTJqQb$>GYHYB'
    'Ao7TV1KvfJsLzW;}J_U^(v{rib`hCunhtQw>COu^{OF82*KDR<QAQYMEZ?0=nH-QJIW1Dj=53Pl6qzpCed99'
    '<79%HRd+mu}$SQv?>%wM-mbbCD3{Q7r31RiAOyf*7EkMQf+FgAuE1+jLBMe*?9cMLz|WH=ltqBW;AS@|s6dg'
    'gG3X`Co>U{$+pC2gKZe8x4m3@aFRFc60;mX29D#KKkShlkmTnk=wijnr|8J#6km8bV|{};s3P7lWNQ0tPM0G'
    'LZL<5c-+=HZYvq2NvKR5{QTsE?;UT>%D9VIM;-H?S2&vAeFgWYr!y}EV_}s<Dj0gz4c?`#cC{eif;%YJM!`-'
    'bRvqwklSO*lu5d?(H<k8!NX;>i*q;A40f$d!MtKEd;2`pj7pEdr&OsX#RL&Tv1W*V9snln=9ff?>V)Sw>!9i'
    'Ut<qL+T_{2nPi7F?<xzxeJdDsL?satF*w=LM`5zy7>ctS0pr`2AqL{R;X9p%?O@Q+QZp(WH>As`eIP$$$1gO'
    '&7{gB4if+8>`&90ym65UV&n$Rhb+caWth2M0<?ny$<}u@XPi1c2lP>57{^=miN!tCTWqRGC&t2o4XDHaL>E!'
    '@?N$ikvGIRGT{Y&=eUkTp5~@YIsy;#2A1rIp{@+m9hKeMoVS1<sI1LXfJ$oIF11T@BC>!76wTzrVOrHWnI>K'
    's1Z%lC!`|)0g~Dr9~^%C{djd8PL8jRzZ{Q$<1}`7k1MlkTh%MWkiy{#Yj=?<4Ru<XUHEfbtbVqEJTwTk)k2)'
    'Tdk-QOq#nJ1id)F%FnYux#x1m<rX|RNyG3VdFfQ&qwbDi56J6997mot@h5wU#zo${+C_uRk9W-ErgYm<NOy~'
    'Rs#dqBoV;-MpJI>~SR65awRkev8w0y=KOw9;dOkfZSe0gI`)3b4;Rdc+NoEaHZ0W>PK2;on=A7**6gBf)WhB'
    '%=6!nczjCmqTlC^gcHL`Gqwn=TYE@mwwKv}^R3NUR}Ks~3ni0#vC)!~w~8O0y7?F@0lv1(%9#rbfGc^`$>(k'
    'FWX|RtwJ&0h=EH>cCmk_A_@@In~?=<Sl^GlS6M>X3N46%mk&(^=d&pEmGDicbev<L4M9k&>rg2^F7zups1kU'
    '3)tSZ#>Sm1V*Q>$i=wwM{bsWFLjGcQ9e2m8Eum~020S^n0}uP^+{x0EsJ%|<1z+dn@3+`Glk?~q97dh#yY37'
    'LTt^s3$)c}Pwk4R#*l|Dn1jAH=t1pKi`(LjowMD*x_AHccpK_b+EoPe+xDZ;))mkGoGLbw==Y3`Vgc=5g`pi'
    'U36ic~wU<_q%82o#an<@FYcJDDqXfGQNX}E1whKNR|bZn|}uEz9waoKN*Hd?lk=RiUL&h2=ZWog!8(4g(pHx'
    'X~7c{byt#HYrPY4QOi0@qjR7y;MweFTZ`@4D>8yxQ@a5^_M4Y-BZ06dv9m&rVM2dsr}G;N@*C&>Mkm$0mX%3'
    '8ENEMVsQRPsvtIKr^$Cf9u(VH21WSA+cY(pC<utx$K1^*)h}Xz~^ZfM#y5^;u}40e?Ush<T@6CtUGAa0BCY9'
    'PR?8G;^e}ud-ebm`jTKRB51Dm*c@;oFR&$o3unZfaIA@W8e7mz8#hHh`EqwTx<`2Mj$W<Nzs?Vl70;pk(NT*'
    'PK6{pb5&dKl-G$48mYGABYr9d!b9=o3puo=f#S;$-KOK^Fcb%sNU}f7z0dQ#(g$0`&tOpQViKPsqOgYqjE-p'
    'U6_47GW+E16gNw$%0O#{*kN|<4~5y7Jm+aLrgd+y(l_RhNqs2EZx&97X)AZV1{c{a2)g$Aj7df>mfmzn$66L'
    'fiL4%2OhZvo^OIjp#r@yb0^Jh;%Tc#E8FBQB*5po=GIe%N^KNLFbkvaNAau|Pn5N`}sAoaHSL&D@!%l<1x^1'
    '?>sD8$wZSl_#>tAJfw=;R+bbAmt%WA5`as6sFy?*)IQLVPP@FY0|~U(0w;Ezd)&TGi;jS6Bmk9ag%9Sqxt02'
    't@7ml?@c()9-DD?|9buUFKUSyS@+S>%a@$`G5v+xJJQ83v4Q}pU*XHsu3Z``!Ur1h>*Z#`^>GBr<D_w<396A'
    '<JOC_Xz>aFKm_Yuc8P4FnI<H}o(sP5S>nM$&5i5vqB_3tiWsz14#+o+HHSj)3wRwfLvj5YI`2cJmpwFX9fJ5'
    '_v&0)VIB9?)GG?YBC8C>HR5(l{@6i$$C;?Ot&rDD1^%zY*;FL(j~Z#aTV&$OePtq){vf&!J!tXMU48YN0Xt('
    "{akfX<9O@yQ9`OhB_uKRzGT{KhwqF%S0yIF7uNo2s$|{Q$mlia9Uv{{d&-zl#')),{'__name__':'wherry"
    "-boot'})"
)
