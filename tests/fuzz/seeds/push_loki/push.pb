
k
!{job="train", node="n\x31\u00e9"}!
─Бо╙∙ О:one
levelinfo!
│Бо╙∙ О:two
levelinfo*